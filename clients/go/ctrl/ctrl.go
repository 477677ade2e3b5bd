// Package ctrl lets managers of controller-runtime stand for election through Hustings.
//
//	election := hustings.NewOrDie(ctrl.GetConfigOrDie(), "", "80807133.example.com", hustings.Options{})
//	mgr, err := ctrl.NewManager(election.GatedConfig(), election.Manager(ctrl.Options{ ... }))
//	err = election.Run(ctrl.SetupSignalHandler(), mgr)
//
// Here hustings is this package. The manager is the unmodified one. Every replica has caches, webhooks and metrics, and
// the leader alone runs controllers and writes. What changes:
//
//   - A replica stands for election as soon as its caches have synced, and not before.
//   - A hand-over and a stop are graceful: the elector gives the Lease up after the manager's runnables have stopped.
//   - A loss ends the process soon: Run returns within some 0.2 s, and until then the gate lets no write pass.
//   - A process leads once, as with controller-runtime's own election, since neither controllers nor managers start
//     twice. The restarted container takes its Lease back at once if that is still its own.
package ctrl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"hustings.io/go"
)

// The durations of client-go's elector above the façade. They do not affect the Lease, whose durations are those of
// [hustings.Options], nor how soon a loss is noticed: [Election.Run] notices it itself. The deadline is long, since a process
// that gets no processor time for as long as that counts as one that has lost its Lease.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = 50 * time.Millisecond
)

// Options are the settings of the election. The default of Logger is controller-runtime's log.
type Options = hustings.Options

// ErrLost is why [Election.Run] ends if the process lost the Lease while its controllers ran. They may still be running,
// so exit the process.
var ErrLost = errors.New("leader election lost: exit this process")

// lostByManager is the error of a manager whose lock was too slow. controller-runtime has no other sign of it.
const lostByManager = "leader election lost"

// errNotRun is why a manager that was started without [Election.Run] never leads.
var errNotRun = errors.New("start the manager with Election.Run, not with its Start")

// An Election is the election of one manager.
type Election struct {
	// elector is nil outside a pod without a namespace, where only a manager without an election can run.
	elector *hustings.Elector
	lock    *lock
	config  *rest.Config
	name    string
	// disabled means that the manager runs without an election.
	disabled atomic.Bool
	invalid  error
	grace    time.Duration
}

// New returns an election for the Lease of this namespace and name. An empty namespace is that of the pod. Outside a pod it
// is an error only if the manager asks for an election: [Election.Run] then returns it.
func New(config *rest.Config, namespace, name string, options Options) (*Election, error) {
	if options.Logger == nil {
		options.Logger = slog.New(logr.ToSlogHandler(ctrl.Log.WithName("hustings")))
	}
	elector, err := hustings.New(config, namespace, name, options)
	if errors.Is(err, hustings.ErrNoNamespace) {
		return &Election{lock: newLock(nil), config: config, name: name, invalid: err}, nil
	}
	if err != nil {
		return nil, err
	}
	grace := elector.Timing().StopGrace
	return &Election{elector: elector, lock: newLock(elector), config: config, name: name, grace: grace}, nil
}

// NewOrDie is like [New], but panics if the settings are not valid.
func NewOrDie(config *rest.Config, namespace, name string, options Options) *Election {
	election, err := New(config, namespace, name, options)
	if err != nil {
		panic(err)
	}
	return election
}

// Elector returns the elector, such as to ask whether this process leads. It is nil outside a pod without a namespace.
func (e *Election) Elector() *hustings.Elector { return e.elector }

// GatedConfig returns the configuration for the manager. Writes fail while this process does not lead, except for events.
func (e *Election) GatedConfig() *rest.Config {
	return e.GatedConfigWith(hustings.GateOptions{})
}

// GatedConfigWith is like [Election.GatedConfig], with settings of the gate, which may let writes wait until this process
// leads. Events pass unless Allow is set. It panics if the settings are not valid.
func (e *Election) GatedConfigWith(options hustings.GateOptions) *rest.Config {
	if e.elector == nil {
		return rest.CopyConfig(e.config)
	}
	if options.Allow == nil {
		options.Allow = hustings.AllowEvents
	}
	gate, err := e.elector.Gate(options)
	if err != nil {
		panic(err)
	}
	config := rest.CopyConfig(e.config)
	config.Wrap(func(transport http.RoundTripper) http.RoundTripper {
		return roundTripper{e, transport, gate.Wrap(transport)}
	})
	return config
}

// roundTripper passes everything if there is no election.
type roundTripper struct {
	election    *Election
	open, gated http.RoundTripper
}

func (t roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.election.disabled.Load() {
		return t.open.RoundTrip(request)
	}
	return t.gated.RoundTrip(request)
}

func (t roundTripper) WrappedRoundTripper() http.RoundTripper { return t.open }

// Manager returns the options of the manager with this election. It ignores the durations that the options name, and
// [Election.Run] refuses options that name another Lease or another server, or that label the Lease. Without LeaderElection
// there is no election: the manager runs its controllers at once, and all writes pass.
//
// GracefulShutdownTimeout must be above 0 and at most [hustings.Timing.StopGrace], its default: the Lease must not be given
// up while controllers run, and it expires when they run for longer than that.
func (e *Election) Manager(options ctrl.Options) ctrl.Options {
	e.disabled.Store(!options.LeaderElection)
	if !options.LeaderElection {
		return options
	}
	if e.elector != nil {
		e.invalid = e.check(options)
		options.GracefulShutdownTimeout = cmp.Or(options.GracefulShutdownTimeout, &e.grace)
	}
	// The name in the metrics of controller-runtime.
	options.LeaderElectionID = e.name
	options.LeaderElectionResourceLockInterface = e.lock
	options.LeaderElectionReleaseOnCancel = false
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = new(leaseDuration), new(renewDeadline), new(retryPeriod)
	return options
}

// check returns what the options ask for and this election does not do.
func (e *Election) check(options ctrl.Options) error {
	var problems []error
	if timeout := options.GracefulShutdownTimeout; timeout != nil && (*timeout <= 0 || *timeout > e.grace) {
		problems = append(problems, fmt.Errorf("GracefulShutdownTimeout is %s: it must be above 0 and at most the StopGrace of %s, "+
			"so raise Timing.StopGrace for controllers that stop slowly", *timeout, e.grace))
	}
	namespace, name, _ := strings.Cut(e.elector.Lease(), "/")
	if other := cmp.Or(options.LeaderElectionNamespace, namespace) + "/" + cmp.Or(options.LeaderElectionID, name); other != e.elector.Lease() {
		problems = append(problems, fmt.Errorf("the manager's options name Lease %s: pass its namespace and name to New", other))
	}
	if options.LeaderElectionConfig != nil {
		problems = append(problems, errors.New("LeaderElectionConfig is set: pass it to New instead"))
	}
	if len(options.LeaderElectionLabels) > 0 {
		problems = append(problems, errors.New("LeaderElectionLabels are not supported: remove them, and label the Lease once"))
	}
	if options.LeaderElectionResourceLockInterface != nil {
		problems = append(problems, errors.New("LeaderElectionResourceLockInterface is set: remove it, the election has its own lock"))
	}
	return errors.Join(problems...)
}

// Run runs the manager, whose options must come from [Election.Manager], until the context is done, the manager ends, or
// this process no longer leads. It gives the Lease up if all controllers have stopped. After an error, exit the process.
func (e *Election) Run(ctx context.Context, mgr manager.Manager) error {
	if e.disabled.Load() {
		return mgr.Start(ctx)
	}
	if e.invalid != nil {
		return fmt.Errorf("cannot run the manager under Lease %s: %w", e.name, e.invalid)
	}
	e.lock.isRun.Store(true)
	managing, stopManager := context.WithCancel(ctx)
	defer stopManager()
	// A replica that stops must not begin to lead.
	electing, stopElector := context.WithCancel(ctx)
	defer stopElector()
	managed, lost := make(chan struct{}), make(chan struct{})
	elected := make(chan error, 1)
	// outlived means that controllers may run on after this function.
	var outlived atomic.Bool
	lead := func(ctx context.Context, term *hustings.Term) {
		held, ok := term.Hold()
		if !ok {
			return
		}
		defer func() {
			// Otherwise no other elector of this process may take the Lease back by the lock of its container.
			if !outlived.Load() {
				held()
			}
		}()
		select {
		case e.lock.terms <- term:
		case <-ctx.Done():
			return
		case <-managed:
			return
		}
		select {
		case <-ctx.Done():
			if e.elector.Term() == term {
				stopManager()
				select {
				case <-managed:
					return
				case <-term.Over():
				}
			}
			// Run must not wait for the controllers.
			outlived.Store(true)
			close(lost)
		case <-managed:
		}
	}
	go func() {
		select {
		case <-e.lock.ready:
			elected <- e.elector.Run(electing, lead)
			stopManager()
		case <-managed:
			elected <- nil
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(managing) }()
	var err error
	hasLost := false
	select {
	case err = <-ended:
	case <-lost:
		hasLost = true
	}
	isLost := hasLost || e.lock.isLost()
	if err != nil && err.Error() == lostByManager {
		isLost, err = true, nil
	}
	if isLost || errors.Is(err, context.DeadlineExceeded) {
		// Controllers may still be running. A controller that has stopped may fail with this error, too, but only the text
		// of the manager's own differs.
		outlived.Store(true)
		e.elector.Abandon()
	}
	close(managed)
	stopElector()
	result := <-elected
	switch {
	case isLost:
		return errors.Join(ErrLost, err, result)
	case err != nil:
		return err
	}
	return result
}

// A lock is the lock of a manager: client-go's elector holds it as long as this process leads.
type lock struct {
	elector *hustings.Elector
	// ready is closed when the caches of the manager have synced. Until then this process does not stand for election.
	ready     chan struct{}
	makeReady func()
	// terms has the term in which the controllers run. There is one: neither controllers nor managers start twice.
	terms chan *hustings.Term
	term  atomic.Pointer[hustings.Term]
	isRun atomic.Bool
}

func newLock(elector *hustings.Elector) *lock {
	ready := make(chan struct{})
	return &lock{
		elector: elector, ready: ready, makeReady: sync.OnceFunc(func() { close(ready) }), terms: make(chan *hustings.Term),
	}
}

// Get waits until this process leads.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !l.isRun.Load() {
		return nil, nil, errNotRun
	}
	l.makeReady()
	if l.term.Load() == nil {
		select {
		case term := <-l.terms:
			l.term.Store(term)
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if l.isLost() {
		return nil, nil, ErrLost
	}
	now := metav1.Now()
	record := &resourcelock.LeaderElectionRecord{
		HolderIdentity: l.elector.Identity(), LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now,
	}
	return record, []byte(l.elector.Identity()), nil
}

// Update succeeds as long as this process leads.
func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	if l.isLost() {
		return ErrLost
	}
	return nil
}

// isLost returns whether the term in which the controllers run is over.
func (l *lock) isLost() bool {
	term := l.term.Load()
	return term != nil && l.elector.Term() != term
}

// Create is never called, since Get never finds the lock missing.
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return ErrLost }

// RecordEvent does nothing: the elector publishes events itself.
func (l *lock) RecordEvent(string) {}

// Identity returns the identity of this replica. Without an elector there is none, and no manager starts.
func (l *lock) Identity() string {
	if l.elector == nil {
		return ""
	}
	return l.elector.Identity()
}

// Describe names the Lease.
func (l *lock) Describe() string { return l.elector.Lease() }
