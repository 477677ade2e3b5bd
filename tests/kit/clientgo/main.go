// A replica that stands for a Lease by client-go's own elector, and prints each change in the format of
// `hustings campaign --output json`.
//
// Most components run this elector today. The tests run it beside Hustings under one Lease. With -binary-version it
// stands by a LeaseCandidate of coordination.k8s.io, as Kubernetes' own components do.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
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

// otherClock shifts the times in what a replica writes. No other clock of a replica reaches the API server.
type otherClock struct {
	next   http.RoundTripper
	offset time.Duration
}

func (c otherClock) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Method != http.MethodPost && request.Method != http.MethodPut {
		return c.next.RoundTrip(request)
	}
	var object map[string]any
	err := json.NewDecoder(request.Body).Decode(&object)
	request.Body.Close()
	if err != nil {
		return nil, err
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		if written, ok := spec["renewTime"].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, written)
			if err != nil {
				return nil, err
			}
			spec["renewTime"] = at.Add(c.offset).UTC().Format(metav1.RFC3339Micro)
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	shifted := request.Clone(request.Context())
	shifted.Body, shifted.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return c.next.RoundTrip(shifted)
}

// reportingLock reports the end of a term before the Lease is released. client-go alone reports it only afterwards.
type reportingLock struct {
	*resourcelock.LeaseLock
	out *printer
	// pause delays the first release, until another replica holds the Lease: the process is paused between the read of
	// its release and the write.
	pause *sync.Once
}

func (l reportingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != "" {
		return l.LeaseLock.Update(ctx, record)
	}
	l.out.leading(false)
	if l.pause != nil {
		l.pause.Do(func() { l.untilHeldByAnother(ctx) })
	}
	err := l.LeaseLock.Update(ctx, record)
	if err == nil {
		l.out.report("released")
	}
	return err
}

// untilHeldByAnother waits until another replica holds the Lease. client-go's own read stays as it is.
func (l reportingLock) untilHeldByAnother(ctx context.Context) {
	leases := l.Client.Leases(l.LeaseMeta.Namespace)
	for ctx.Err() == nil {
		held, err := leases.Get(ctx, l.LeaseMeta.Name, metav1.GetOptions{})
		if err == nil && held.Spec.HolderIdentity != nil && *held.Spec.HolderIdentity != l.Identity() {
			return
		}
		time.Sleep(50 * time.Millisecond)
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
	offset := flag.Duration("clock-offset", 0, "how far the replica's clock is ahead, by the times that it writes")
	pause := flag.Bool("paused-release", false, "whether to pause in the first release until another replica holds the Lease")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	exitOn(err)
	if *offset != 0 {
		// client-go writes protobuf otherwise, which otherClock cannot read.
		config.ContentType = "application/json"
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return otherClock{next, *offset} })
	}
	client, err := kubernetes.NewForConfig(config)
	exitOn(err)
	signals, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	elect, cancel := context.WithCancel(context.Background())
	out := &printer{identity: *identity}
	out.report("started")
	// Work ends at the signal, before the Lease is released.
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

	// As Kubernetes' components have it.
	config.Timeout = *deadline / 2
	lockClient, err := kubernetes.NewForConfig(config)
	exitOn(err)
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *lease},
		Client:     lockClient.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
	}
	reporting := reportingLock{LeaseLock: lock, out: out}
	if *pause {
		reporting.pause = new(sync.Once)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            reporting,
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
