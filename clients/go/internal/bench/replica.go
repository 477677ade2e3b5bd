package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"hustings.io/go"
)

// replicaVariable makes this program a replica.
const replicaVariable = "HUSTINGS_BENCH_REPLICA"

// pollPeriod is how often a replica asks each of its electors whether it leads.
const pollPeriod = 2 * time.Millisecond

// A replica is a process that stands for many Leases, with one elector for each.
type replica struct {
	Kind                          kind
	Kubeconfig, Identity, Version string
	Leases                        []string
}

// An event is a line that a replica prints.
type event struct {
	Kind  string
	Lease int `json:",omitempty"`
	// At is an instant of CLOCK_BOOTTIME in microseconds; of "created", how long that took.
	At int64
}

const (
	created = "created" // the first elector of the process exists
	runs    = "runs"    // all electors of the process begin
	leads   = "leads"   // the process leads; it may have led for one poll period
	rests   = "rests"   // the last time at which the process led; it may have led for one poll period more
	read    = "read"
	watch   = "watch"
	write   = "write"
)

// A contender is an elector.
type contender struct {
	isLeader func() bool
	run      func(context.Context)
	leading  bool
	ledAt    int64
}

var printing sync.Mutex

func (e event) print() {
	text, _ := json.Marshal(e)
	printing.Lock()
	defer printing.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

func (r replica) run() error {
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next} })
	stand := r.standWithHustings
	if r.Kind == clientGo {
		stand = r.standWithClientGo
	}
	var contenders []*contender
	for at, lease := range r.Leases {
		before := now()
		contender, err := stand(config, lease)
		if err != nil {
			return err
		}
		if at == 0 {
			event{Kind: created, At: now() - before}.print()
		}
		contenders = append(contenders, contender)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	event{Kind: runs, At: now()}.print()
	var running sync.WaitGroup
	for _, contender := range contenders {
		running.Go(func() { contender.run(ctx) })
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	for {
		sweep(contenders)
		select {
		case <-ended:
			sweep(contenders)
			return nil
		case <-time.After(pollPeriod):
		}
	}
}

// sweep asks each elector whether it leads, and reports changes. It reads the clock rarely, since that would keep the
// machine busy.
func sweep(contenders []*contender) {
	before := now()
	for at, contender := range contenders {
		isLeader := contender.isLeader()
		switch {
		case isLeader && !contender.leading:
			event{leads, at, now()}.print()
		case !isLeader && contender.leading:
			event{rests, at, contender.ledAt}.print()
		}
		if contender.leading = isLeader; isLeader {
			contender.ledAt = before
		}
	}
}

func (r replica) standWithHustings(config *rest.Config, lease string) (*contender, error) {
	elector, err := hustings.New(config, namespace, lease, hustings.Options{
		Identity: r.Identity + "." + lease, BinaryVersion: r.Version,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, err
	}
	return &contender{isLeader: elector.IsLeader, run: func(ctx context.Context) {
		if err := elector.Run(ctx, func(ctx context.Context, _ *hustings.Term) { <-ctx.Done() }); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}}, nil
}

// standWithClientGo gives each Lease a client of its own, with its own rate limit. client-go shares one connection among
// them.
func (r replica) standWithClientGo(config *rest.Config, lease string) (*contender, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	elector, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: r.Identity},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: clientgo.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, err
	}
	return &contender{isLeader: elector.IsLeader, run: elector.Run}, nil
}

// counting reports each request.
type counting struct{ next http.RoundTripper }

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	kind := write
	if request.Method == http.MethodGet {
		kind = read
		if request.URL.Query().Has("watch") {
			kind = watch
		}
	}
	event{Kind: kind, At: now()}.print()
	return c.next.RoundTrip(request)
}

func now() int64 {
	var clock unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &clock); err != nil {
		panic(err)
	}
	return clock.Nano() / 1000
}
