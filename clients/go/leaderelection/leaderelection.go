// Package leaderelection has the names of client-go's package of that name that stand for election, with the elector of
// Hustings behind them. A program that calls [RunOrDie] changes one import line. What differs:
//
//   - [LeaderElector.IsLeader] is false as soon as the last renewal is too old, also in a process that was frozen.
//   - With ReleaseOnCancel, the Lease is released after OnStartedLeading has returned, and not before. If it does not
//     return within 25 s, the Lease expires.
//   - The RBAC role needs the verbs get, list, watch, create and patch on leases.
//   - The lock must be a [resourcelock.LeaseLock].
//   - JitterFactor is missing, and so are SetProvider with its types, for which there is [hustings.Options.Metrics], and
//     NewCandidate with LeaseCandidate, for which there is [hustings.Options.BinaryVersion].
package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"hustings.io/go"
)

// LeaderCallbacks is client-go's type.
type LeaderCallbacks = clientgo.LeaderCallbacks

// LeaderElectionConfig has the fields of client-go's type, and two more.
type LeaderElectionConfig struct {
	// Lock names the Lease and the identity, and has the client. It must be a [resourcelock.LeaseLock].
	Lock resourcelock.Interface
	// LeaseDuration is cut to whole seconds. RenewDeadline must be at most 0.99 of it.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	Callbacks                                 LeaderCallbacks
	// WatchDog is the health check, or nil.
	WatchDog *HealthzAdaptor
	// ReleaseOnCancel releases the Lease after OnStartedLeading has returned. Without it the Lease expires, so that work
	// may go on for a while.
	ReleaseOnCancel bool
	// Name is not used: the Lease has a name.
	Name string
	// Coordinated must be false. For an election by version, set Options.BinaryVersion.
	Coordinated bool

	// RESTConfig gives the elector connections of its own, with these credentials. Without it, the elector uses the
	// client of the lock, whose single HTTP/2 connection may be stuck for longer than a term lasts.
	RESTConfig *rest.Config
	// Options are further settings. The fields above replace Identity, and Timing except for StopGrace and RequestTimeout. A
	// callback OnNewLeader replaces that of the Options. KeepOnStop contradicts ReleaseOnCancel.
	Options hustings.Options
}

// A LeaderElector stands for one Lease.
type LeaderElector struct {
	config  LeaderElectionConfig
	options hustings.Options
	// elector is that of the present or next Run.
	elector           atomic.Pointer[hustings.Elector]
	hasRun, isRunning atomic.Bool
}

// NewLeaderElector returns an elector, or an error with all problems of the configuration.
func NewLeaderElector(lec LeaderElectionConfig) (*LeaderElector, error) {
	lock, ok := lec.Lock.(*resourcelock.LeaseLock)
	var problems []error
	refuse := func(is bool, why string) {
		if is {
			problems = append(problems, errors.New(why))
		}
	}
	refuse(!ok, fmt.Sprintf("the lock is a %T: use a *resourcelock.LeaseLock, as resourcelock.New returns for leases", lec.Lock))
	refuse(ok && len(lock.Labels) > 0, "Labels of the lock are not supported: remove them, and label the Lease once")
	refuse(ok && lock.LockConfig.Identity == "", "Lock identity is empty")
	refuse(lec.Callbacks.OnStartedLeading == nil, "OnStartedLeading callback must not be nil")
	refuse(lec.Callbacks.OnStoppedLeading == nil, "OnStoppedLeading callback must not be nil")
	refuse(lec.Coordinated, "Coordinated is for candidates of Kubernetes' own controller: set Options.BinaryVersion instead")
	refuse(lec.ReleaseOnCancel && lec.Options.KeepOnStop, "ReleaseOnCancel and Options.KeepOnStop contradict each other: remove one")
	refuse(lec.LeaseDuration < time.Second, "leaseDuration must be at least one second")
	refuse(lec.RenewDeadline < 1, "renewDeadline must be greater than zero")
	refuse(lec.RetryPeriod < 1, "retryPeriod must be greater than zero")
	if problems != nil {
		return nil, fmt.Errorf("cannot stand for election: %w", errors.Join(problems...))
	}
	options := lec.Options
	options.Identity = lock.LockConfig.Identity
	options.Timing.LeaseDuration = lec.LeaseDuration.Truncate(time.Second)
	options.Timing.RenewDeadline, options.Timing.RetryPeriod = lec.RenewDeadline, lec.RetryPeriod
	if lec.Callbacks.OnNewLeader != nil {
		options.OnNewLeader = lec.Callbacks.OnNewLeader
	}
	if options.Logger == nil {
		options.Logger = slog.New(withAttrs{logr.ToSlogHandler(klog.Background()), nil})
	}
	le := &LeaderElector{config: lec, options: options}
	if err := le.renew(); err != nil {
		return nil, err
	}
	return le, nil
}

// renew creates the elector of the next Run.
func (le *LeaderElector) renew() error {
	elector, err := newElector(le.config.RESTConfig, le.config.Lock.(*resourcelock.LeaseLock), le.options)
	if err == nil {
		le.elector.Store(elector)
	}
	return err
}

func newElector(config *rest.Config, lock *resourcelock.LeaseLock, options hustings.Options) (*hustings.Elector, error) {
	namespace, name := lock.LeaseMeta.Namespace, lock.LeaseMeta.Name
	if config != nil {
		return hustings.New(config, namespace, name, options)
	}
	if client, ok := lock.Client.(interface{ RESTClient() rest.Interface }); ok {
		if client, ok := client.RESTClient().(*rest.RESTClient); ok && client != nil && client.Client != nil {
			server := client.Get().AbsPath("/").URL().String()
			return hustings.NewForClient(server, client.Client, namespace, name, options)
		}
	}
	return nil, fmt.Errorf("the client of the lock is a %T, which has no connection to a server: set RESTConfig", lock.Client)
}

// RunOrDie stands for election as [LeaderElector.Run] does. It panics if the configuration is not valid.
func RunOrDie(ctx context.Context, lec LeaderElectionConfig) {
	le, err := NewLeaderElector(lec)
	if err != nil {
		panic(err)
	}
	if lec.WatchDog != nil {
		lec.WatchDog.SetLeaderElection(le)
	}
	le.Run(ctx)
}

// Run stands for election until the context is done or this process no longer leads. OnStoppedLeading is called at the
// end, unless OnStartedLeading panics: with ReleaseOnCancel, the panic then continues in the caller of Run, whatever
// runtime.ReallyCrash says; without it, the panic ends the process. While Run is under way, another call only reports an
// error.
func (le *LeaderElector) Run(ctx context.Context) {
	if le.isRunning.Swap(true) {
		runtime.HandleErrorWithContext(ctx, errors.New("it stands for election already"), "Cannot stand for election twice at a time")
		return
	}
	le.run(ctx)
	defer runtime.HandleCrashWithContext(ctx)
	le.config.Callbacks.OnStoppedLeading()
}

func (le *LeaderElector) run(ctx context.Context) {
	defer le.isRunning.Store(false)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if le.hasRun.Swap(true) {
		if err := le.renew(); err != nil {
			runtime.HandleErrorWithContext(ctx, err, "Cannot stand for election again")
			return
		}
	}
	elector := le.elector.Load()
	err := elector.Run(ctx, func(ctx context.Context, term *hustings.Term) {
		le.recordEvent("became leader")
		if le.config.ReleaseOnCancel {
			// Whether the Lease is lost must be clear before it is released.
			decided, ok := term.Hold()
			if !ok {
				return
			}
			working, worked := context.WithCancel(context.Background())
			defer worked()
			context.AfterFunc(ctx, func() {
				defer decided()
				le.recordEvent("stopped leading")
				if elector.Term() == term {
					stop()
					decided()
					select {
					case <-working.Done():
					case <-term.Over():
					}
					if working.Err() != nil {
						return // the Lease is being released
					}
				}
				// The Lease is lost, perhaps while the work stops: OnStoppedLeading must not wait for the work.
				elector.Abandon()
			})
			le.config.Callbacks.OnStartedLeading(ctx)
			return
		}
		// As long as the work goes on, no other elector of this process may count as its successor.
		ended, ok := term.Hold()
		if !ok {
			return
		}
		go func() {
			defer ended()
			le.config.Callbacks.OnStartedLeading(ctx)
		}()
		<-ctx.Done()
		le.recordEvent("stopped leading")
		// The work may go on.
		elector.Abandon()
	})
	if err != nil && !errors.Is(err, hustings.ErrAbandoned) {
		runtime.HandleErrorWithContext(ctx, err, "Leader election has ended")
	}
}

// recordEvent publishes an event as client-go's lock does.
func (le *LeaderElector) recordEvent(what string) {
	lock := le.config.Lock.(*resourcelock.LeaseLock)
	if recorder := lock.LockConfig.EventRecorder; recorder != nil {
		lease := &coordinationv1.Lease{ObjectMeta: lock.LeaseMeta}
		lease.Kind, lease.APIVersion = "Lease", coordinationv1.SchemeGroupVersion.String()
		recorder.Eventf(lease, corev1.EventTypeNormal, "LeaderElection", "%v %v", lock.LockConfig.Identity, what)
	}
}

// IsLeader returns whether this process leads now. It is true only as long as no other process can lead.
func (le *LeaderElector) IsLeader() bool { return le.elector.Load().IsLeader() }

// GetLeader returns the identity of the holder, or nothing if none is known.
func (le *LeaderElector) GetLeader() string { return le.elector.Load().Holder() }

// Elector returns the elector of Hustings, such as for its token.
func (le *LeaderElector) Elector() *hustings.Elector { return le.elector.Load() }

// Check returns an error if the elector is dead, or has been stuck for longer than LeaseDuration and the tolerance. One whose
// Run has ended is healthy, as with client-go.
func (le *LeaderElector) Check(maxTolerableExpiredLease time.Duration) error {
	elector := le.elector.Load()
	if errors.Is(elector.Err(), hustings.ErrAbandoned) {
		return nil
	}
	return elector.Check(le.config.LeaseDuration + maxTolerableExpiredLease)
}

// HealthzAdaptor is a health check that fails if the elector is dead or stuck.
type HealthzAdaptor struct {
	elector atomic.Pointer[LeaderElector]
	timeout time.Duration
}

// NewLeaderHealthzAdaptor returns a health check that tolerates this much delay, beyond LeaseDuration.
func NewLeaderHealthzAdaptor(timeout time.Duration) *HealthzAdaptor {
	return &HealthzAdaptor{timeout: timeout}
}

// Name returns the name of the health check.
func (l *HealthzAdaptor) Name() string { return "leaderElection" }

// Check returns why the elector is not healthy, or nil.
func (l *HealthzAdaptor) Check(*http.Request) error {
	if elector := l.elector.Load(); elector != nil {
		return elector.Check(l.timeout)
	}
	return nil
}

// SetLeaderElection sets the elector that the check is for.
func (l *HealthzAdaptor) SetLeaderElection(le *LeaderElector) { l.elector.Store(le) }
