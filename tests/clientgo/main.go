// A replica that stands for a Lease by client-go's own elector, and prints each change in the format of
// `hustings campaign --output json`.
//
// Most components run this elector today. The tests run it beside Hustings under one Lease. With -binary-version it
// stands by a LeaseCandidate of coordination.k8s.io, as Kubernetes' own components do.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type line struct {
	Time     string  `json:"time"`
	Event    string  `json:"event"`
	Identity string  `json:"identity"`
	Holder   *string `json:"holder"`
	Term     *uint32 `json:"term"`
	Token    *uint64 `json:"token"`
	Message  string  `json:"message"`
}

type printer struct {
	sync.Mutex
	identity string
	holder   *string
	leads    bool
}

func (p *printer) print(event string) {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	text, _ := json.Marshal(line{Time: now, Event: event, Identity: p.identity, Holder: p.holder})
	fmt.Println(string(text))
}

func (p *printer) report(event string) {
	p.Lock()
	defer p.Unlock()
	p.print(event)
}

func (p *printer) observed(holder string) {
	p.Lock()
	defer p.Unlock()
	p.holder = &holder
	p.print("observed")
}

func (p *printer) leading(leads bool) {
	p.Lock()
	defer p.Unlock()
	if p.leads != leads {
		p.leads = leads
		p.print(map[bool]string{true: "leading", false: "stopped"}[leads])
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig file")
	namespace := flag.String("namespace", "default", "the namespace of the Lease")
	lease := flag.String("lease", "", "the name of the Lease")
	identity := flag.String("identity", "", "the identity under which to hold it")
	duration := flag.Duration("lease-duration", 15*time.Second, "client-go's LeaseDuration")
	deadline := flag.Duration("renew-deadline", 10*time.Second, "client-go's RenewDeadline")
	retry := flag.Duration("retry-period", 2*time.Second, "client-go's RetryPeriod")
	binary := flag.String("binary-version", "", "the binary version of the LeaseCandidate; without it there is none")
	emulation := flag.String("emulation-version", "", "the emulation version; without it the binary version")
	strategy := flag.String("strategy", string(coordinationv1.OldestEmulationVersion), "the strategy of the LeaseCandidate")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	exitOn(err)
	client, err := kubernetes.NewForConfig(config)
	exitOn(err)
	signals, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	elect, cancel := context.WithCancel(context.Background())
	out := &printer{identity: *identity}
	out.report("started")
	// Work ends before the Lease is released. client-go alone reports the end only afterwards.
	go func() {
		<-signals.Done()
		out.leading(false)
		cancel()
	}()

	coordinated := *binary != ""
	if coordinated {
		if *emulation == "" {
			*emulation = *binary
		}
		candidate, synced, err := leaderelection.NewCandidate(
			client, *namespace, *identity, *lease, *binary, *emulation, coordinationv1.CoordinatedLeaseStrategy(*strategy))
		exitOn(err)
		go candidate.Run(elect)
		synced.WaitForCacheSync(elect.Done())
	}

	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *lease},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   *duration,
		RenewDeadline:   *deadline,
		RetryPeriod:     *retry,
		ReleaseOnCancel: true,
		Coordinated:     coordinated,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { out.leading(true) },
			OnStoppedLeading: func() { out.leading(false) },
			OnNewLeader:      out.observed,
		},
	})
	exitOn(err)
	for elect.Err() == nil {
		elector.Run(elect)
	}
	out.report("exiting")
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
