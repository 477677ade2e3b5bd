package leaderelection

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"hustings.io/go/internal/testkit"
)

func configOf(server *testkit.Server, identity string) LeaderElectionConfig {
	return LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "n", Name: "l"},
			Client:     kubernetes.NewForConfigOrDie(server.Config()).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond,
		Callbacks: LeaderCallbacks{OnStartedLeading: func(ctx context.Context) { <-ctx.Done() }, OnStoppedLeading: func() {}},
	}
}

func TestTheCallbacksComeInOrderAndTheLeaseIsReleasedAfterTheWork(t *testing.T) {
	server := testkit.NewServer(t)
	config := configOf(server, "a")
	var calls []string
	var holderAtEnd string
	leaders := make(chan string, 2)
	config.ReleaseOnCancel, config.WatchDog = true, NewLeaderHealthzAdaptor(time.Minute)
	// A machine under load must not cost the term.
	config.LeaseDuration, config.RenewDeadline = time.Minute, 40*time.Second
	ctx, cancel := context.WithCancel(t.Context())
	config.Callbacks = LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			calls = append(calls, "started")
			if ctx.Err() != nil || config.WatchDog.Check(nil) != nil {
				t.Error("the term is over")
			}
			cancel()
			<-ctx.Done()
			holderAtEnd = server.Holder("l")
			calls = append(calls, "ended")
		},
		OnStoppedLeading: func() { calls = append(calls, "stopped, held by "+server.Holder("l")) },
		OnNewLeader:      func(identity string) { leaders <- identity },
	}
	RunOrDie(ctx, config)
	if got := strings.Join(calls, "; "); got != "started; ended; stopped, held by " || holderAtEnd != "a" {
		t.Errorf("%s; while it ended, %q held the Lease", got, holderAtEnd)
	}
	if leader := <-leaders; leader != "a" {
		t.Errorf("new leader %q", leader)
	}
}

// Without ReleaseOnCancel, the work may go on for a while, so the Lease expires.
func TestWithoutReleaseOnCancelRunReturnsAtOnceAndTheLeaseExpires(t *testing.T) {
	server := testkit.NewServer(t)
	config := configOf(server, "a")
	ctx, cancel := context.WithCancel(t.Context())
	forever := make(chan struct{})
	defer close(forever)
	var stopped atomic.Bool
	config.Callbacks.OnStartedLeading = func(context.Context) { cancel(); <-forever }
	config.Callbacks.OnStoppedLeading = func() { stopped.Store(true) }
	le, err := NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	le.Run(ctx)
	if le.IsLeader() || !stopped.Load() || server.Holder("l") != "a" {
		t.Errorf("leads: %t, stopped: %t, holder: %q", le.IsLeader(), stopped.Load(), server.Holder("l"))
	}
	if err := le.Check(0); err != nil {
		t.Errorf("not healthy after its end: %s", err)
	}
	next, err := NewLeaderElector(configOf(server, "b"))
	if err != nil {
		t.Fatal(err)
	}
	go next.Run(t.Context())
	testkit.Eventually(t, "b leads", func() bool { return next.IsLeader() && next.GetLeader() == "b" })
}

func TestAnElectorRunsAgainAsWithClientGo(t *testing.T) {
	server := testkit.NewServer(t)
	config := configOf(server, "a")
	config.ReleaseOnCancel = true
	config.LeaseDuration, config.RenewDeadline = time.Minute, 40*time.Second
	var reported atomic.Value
	config.Options.OnNewLeader = func(identity string) { reported.Store(identity) }
	done, cancel := context.WithCancel(t.Context())
	cancel()
	terms, stops := 0, 0
	var stop context.CancelFunc
	var le *LeaderElector
	var err error
	config.Callbacks.OnStartedLeading = func(ctx context.Context) {
		terms++
		if le.Run(done); !le.IsLeader() {
			t.Error("a second Run hides the first one")
		}
		testkit.Eventually(t, "the leader is reported", func() bool { return reported.Load() == "a" })
		stop()
		<-ctx.Done()
	}
	config.Callbacks.OnStoppedLeading = func() { stops++ }
	le, err = NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		stop = cancel
		le.Run(ctx)
		cancel()
	}
	if terms != 2 || stops != 2 {
		t.Errorf("%d terms, %d ends", terms, stops)
	}
}

func TestEachLineOfTheDefaultLogNamesTheLease(t *testing.T) {
	t.Setenv("POD_UID", "")
	state := klog.CaptureState()
	var log strings.Builder
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	le, err := NewLeaderElector(configOf(testkit.NewServer(t), "a"))
	klog.Flush()
	state.Restore()
	if err != nil {
		t.Fatal(err)
	}
	le.Elector().Abandon()
	if line := log.String(); !strings.Contains(line, "pod UID unknown") || !strings.Contains(line, `lease="n/l" identity="a"`) {
		t.Error(line)
	}
}

// A stuckLog blocks the elector from when it is armed until the channel is closed.
type stuckLog struct {
	slog.Handler
	armed *atomic.Bool
	until chan struct{}
}

func (l stuckLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l stuckLog) Handle(context.Context, slog.Record) error {
	if l.armed.Load() {
		<-l.until
	}
	return nil
}

func TestTheWatchDogToleratesTheLeaseDurationAsWithClientGo(t *testing.T) {
	server := testkit.NewServer(t)
	// This fault is logged. A leader that is stuck ends its Run.
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		testkit.Fail(w, http.StatusInternalServerError, "InternalError", "l")
		return true
	})
	config := configOf(server, "a")
	log := stuckLog{slog.Default().Handler(), new(atomic.Bool), make(chan struct{})}
	defer close(log.until)
	config.Options.Logger = slog.New(log)
	le, err := NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	watchDog := NewLeaderHealthzAdaptor(0)
	watchDog.SetLeaderElection(le)
	log.armed.Store(true)
	began := time.Now()
	go le.Run(t.Context())
	testkit.Eventually(t, "the watchdog fails", func() bool { return watchDog.Check(nil) != nil })
	if took := time.Since(began); took < config.LeaseDuration {
		t.Errorf("it fails after %s", took)
	}
}

// OnStoppedLeading often ends the process with the code 0, which would hide the panic.
func TestAPanicOfTheWorkIsHiddenNeitherByOnStoppedLeadingNorByReallyCrash(t *testing.T) {
	runtime.ReallyCrash = false
	defer func() { runtime.ReallyCrash = true }()
	config := configOf(testkit.NewServer(t), "a")
	config.ReleaseOnCancel = true
	config.Callbacks.OnStartedLeading = func(context.Context) { panic("broken") }
	config.Callbacks.OnStoppedLeading = func() { t.Error("OnStoppedLeading was called") }
	le, err := NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if value := recover(); value == nil {
			t.Error("the panic does not continue")
		}
	}()
	le.Run(t.Context())
}

func TestALossEndsRunAtOnceWhateverTheWorkDoes(t *testing.T) {
	for _, c := range []struct{ release, stops bool }{{true, false}, {false, false}, {true, true}} {
		server := testkit.NewServer(t)
		config := configOf(server, "a")
		config.ReleaseOnCancel, config.RESTConfig = c.release, server.Config()
		config.Options.Timing.StopGrace = time.Hour
		started, forever := make(chan struct{}), make(chan struct{})
		config.Callbacks.OnStartedLeading = func(context.Context) { close(started); <-forever }
		le, err := NewLeaderElector(config)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { le.Run(ctx); close(ended) }()
		<-started
		if c.stops {
			stop()
		}
		server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			testkit.Fail(w, http.StatusInternalServerError, "InternalError", "l")
			return true
		})
		<-ended
		if le.IsLeader() {
			t.Error("leads after its loss")
		}
		close(forever)
	}
}

func TestWhatTheElectorCannotDoIsRefusedWithTheWayOut(t *testing.T) {
	server := testkit.NewServer(t)
	for expected, change := range map[string]func(*LeaderElectionConfig){
		"the lock is a *resourcelock.MultiLock: use": func(c *LeaderElectionConfig) { c.Lock = &resourcelock.MultiLock{} },
		"the lock is a <nil>: use":                   func(c *LeaderElectionConfig) { c.Lock = nil },
		"set Options.BinaryVersion":                  func(c *LeaderElectionConfig) { c.Coordinated = true },
		"identity is empty":                          func(c *LeaderElectionConfig) { c.Lock.(*resourcelock.LeaseLock).LockConfig.Identity = "" },
		"OnStartedLeading":                           func(c *LeaderElectionConfig) { c.Callbacks.OnStartedLeading = nil },
		"OnStoppedLeading":                           func(c *LeaderElectionConfig) { c.Callbacks.OnStoppedLeading = nil },
		"leaseDuration":                              func(c *LeaderElectionConfig) { c.LeaseDuration = 0 },
		"renew deadline":                             func(c *LeaderElectionConfig) { c.RenewDeadline = c.LeaseDuration },
		"contradict":                                 func(c *LeaderElectionConfig) { c.ReleaseOnCancel, c.Options.KeepOnStop = true, true },
		"Labels":                                     func(c *LeaderElectionConfig) { c.Lock.(*resourcelock.LeaseLock).Labels = map[string]string{"a": "b"} },
		"set RESTConfig": func(c *LeaderElectionConfig) {
			c.Lock.(*resourcelock.LeaseLock).Client = fake.NewClientset().CoordinationV1()
		},
	} {
		config := configOf(server, "a")
		change(&config)
		if _, err := NewLeaderElector(config); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v", expected, err)
		}
	}
	defer func() {
		if err, ok := recover().(error); !ok || errors.Unwrap(err) == nil {
			t.Error("RunOrDie does not panic")
		}
	}()
	RunOrDie(t.Context(), LeaderElectionConfig{})
}
