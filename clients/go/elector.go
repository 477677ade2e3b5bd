package hustings

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"hustings.io/go/internal/core"
)

const (
	// never is the validity of a term that is over, and of no term.
	never = math.MinInt64
	// lateness is how long after the end of the validity the clock stops the work. A live elector stops the work earlier.
	// With the default timing, the Lease outlasts the validity by 5 s.
	lateness = 100 * time.Millisecond
)

var (
	// ErrAbandoned is why an elector ended that was told to [Elector.Abandon] its Lease.
	ErrAbandoned = errors.New("abandoned: the Lease expires")
	// ErrWorkDidNotStop is why an elector ended whose work outlived its grace: its Lease expires. Exit the process, since
	// another replica may lead soon.
	ErrWorkDidNotStop = errors.New("the work did not stop within its grace: the Lease expires; exit this process")
	// ErrStopped is why an elector ended that was stopped.
	ErrStopped = errors.New("stopped")
	// ErrNoNamespace is why an elector cannot be created outside a pod without a namespace.
	ErrNoNamespace = errors.New("the namespace of the Lease is not known, since this is not a pod: pass it, or set POD_NAMESPACE")
	errStarted     = errors.New("the elector has run already, or was abandoned: create another one")
)

// An Elector stands for one Lease. It is safe for concurrent use.
type Elector struct {
	name        string // namespace/name
	namespace   string
	lease       string
	identity    string
	timing      Timing
	longest     time.Duration // the longest deadline of a gated write
	options     Options
	log         *slog.Logger
	clock       clock
	connections *connections
	observers   []observer

	// Only the loop uses these.
	instance *core.Instance
	handle   uint32
	unlock   func()

	// validUntil is when this process stops to lead unless it renews, by clock.moment.
	validUntil atomic.Int64
	// dueAt is when the loop is to step next.
	dueAt    atomic.Int64
	started  atomic.Bool
	overdue  atomic.Pointer[Term] // the last term whose work has used up its grace
	resigned chan struct{}        // a term may have been resigned
	stops    chan string          // why to stop
	ended    context.Context
	end      context.CancelFunc
	ranges   ranges

	mutex   sync.Mutex
	view    view
	changed chan struct{} // closed at the next change of the view
}

// A view is what readers see.
type view struct {
	term        *Term // which this elector leads
	holder      string
	holderUntil int64
	// newHolder is the holder since the last of so many changes.
	newHolder     string
	holderChanges int
	obstacle      string
	err           error // why the elector has ended
}

// New returns an elector for the Lease of this namespace and name. An empty namespace is that of the pod. The elector has
// connections of its own, with the credentials of the configuration; rate limits and timeouts of the configuration do not
// apply to it. It sends its first request when it runs.
//
// The error has all problems of the settings.
func New(config *rest.Config, namespace, lease string, options Options) (*Elector, error) {
	connections, err := connectionsOf(config, systemClock)
	if err != nil {
		return nil, err
	}
	return newElector(connections, namespace, lease, options)
}

// NewForClient is like [New], but sends requests through an existing client, such as a test's. The elector then shares
// its connections. One HTTP/2 connection that is stuck may cost it a term, so prefer [New].
func NewForClient(server string, client *http.Client, namespace, lease string, options Options) (*Elector, error) {
	connections, err := newConnections(server, systemClock, func() (*pool, error) {
		return &pool{clientOf(client.Transport), func() {}}, nil
	})
	if err != nil {
		return nil, err
	}
	return newElector(connections, namespace, lease, options)
}

func newElector(connections *connections, namespace, lease string, options Options) (*Elector, error) {
	options = options.withDefaults()
	namespace = cmp.Or(namespace, podNamespace())
	if namespace == "" {
		return nil, fmt.Errorf("cannot stand for Lease %s: %w", lease, ErrNoNamespace)
	}
	e := &Elector{
		name:        namespace + "/" + lease,
		namespace:   namespace,
		lease:       lease,
		identity:    options.Identity,
		timing:      options.Timing,
		options:     options,
		connections: connections,
		clock:       connections.clock,
		unlock:      func() {},
		resigned:    make(chan struct{}, 1),
		stops:       make(chan string, 1),
		changed:     make(chan struct{}),
	}
	e.log = options.Logger.With("lease", e.name, "identity", e.identity)
	e.validUntil.Store(never)
	e.dueAt.Store(math.MaxInt64)
	e.ended, e.end = context.WithCancel(context.Background())
	if err := e.create(); err != nil {
		e.close()
		return nil, err
	}
	if options.Metrics != nil {
		e.observers = append(e.observers, options.Metrics.add(e))
	}
	if options.Events {
		e.observers = append(e.observers, newEvents(e))
	}
	return e, nil
}

// create creates the elector of the core. With the lock of its place, a restarted container takes its own Lease back at
// once: the lock proves that its former process is dead.
func (e *Elector) create() error {
	config, err := e.options.config(e.namespace, e.lease)
	if err == nil {
		e.instance, err = newInstance()
	}
	if err != nil {
		return fmt.Errorf("cannot stand for Lease %s: %w", e.name, err)
	}
	if why := e.instance.Interpreted(); why != nil {
		e.log.Info("the elector is interpreted, since it cannot be compiled: each decision takes about a millisecond", "error", why)
	}
	created, err := e.createIn(config, nil)
	if err != nil {
		return err
	}
	if e.options.PodUID == "" {
		e.log.Info("pod UID unknown: after a restart this elector waits until its Lease has expired")
	} else if locked, err := e.createLocked(config); err != nil {
		e.log.Info("cannot lock this container: after a restart this elector waits until its Lease has expired", "error", err)
	} else {
		if err := e.instance.Drop(created.Elector); err != nil {
			return err
		}
		created = locked
	}
	for _, warning := range created.Warnings {
		e.log.Warn(warning)
	}
	e.handle = created.Elector
	e.longest = time.Duration(created.LongestWriteUs) * time.Microsecond
	return nil
}

// close frees what the elector uses. Nothing of this instance is left that another one would have to wait for.
func (e *Elector) close() {
	if e.instance != nil {
		e.instance.Close()
	}
	e.unlock()
}

// createLocked creates an elector of the core in this place, and locks the place.
func (e *Elector) createLocked(config core.Config) (core.Created, error) {
	return inPlace(func(namespace string, bind func(string) (func(), error)) (core.Created, error) {
		place := core.Place{PodUID: e.options.PodUID, Container: orUnknown(e.options.Container), NetworkNamespace: namespace}
		created, err := e.createIn(config, &place)
		if err != nil {
			return created, err
		}
		unlock, err := bind(created.Lock)
		if err != nil {
			return created, errors.Join(err, e.instance.Drop(created.Elector))
		}
		e.unlock = unlock
		return created, nil
	})
}

// createIn creates an elector of the core with a session of its own.
func (e *Elector) createIn(config core.Config, place *core.Place) (core.Created, error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	config.Random, config.Place = hex.EncodeToString(random), place
	text, err := json.Marshal(config)
	if err != nil {
		return core.Created{}, err
	}
	return e.instance.Create(e.clock.moment(), e.clock.wall(), text)
}

// orUnknown returns the name of a container, or the name for an unknown one, which no container has.
func orUnknown(container string) string {
	if container == "" {
		return "-"
	}
	return container
}

// Lease returns the namespace and the name of the Lease, as namespace/name.
func (e *Elector) Lease() string { return e.name }

// Identity returns the identity of this replica.
func (e *Elector) Identity() string { return e.identity }

// Timing returns the durations of this elector. RequestTimeout is 0 if it was not set: the core has its default.
func (e *Elector) Timing() Timing { return e.timing }

// IsLeader returns whether this process leads now. It costs one atomic load and one reading of the clock, so ask
// whenever it matters. It is false if the elector is stuck or dead.
func (e *Elector) IsLeader() bool { return e.Remaining() > 0 }

// Remaining returns how long this process continues to lead even without a renewal, unless it gives the Lease up. It is
// 0 if this process does not lead.
func (e *Elector) Remaining() time.Duration {
	// Load before the clock is read: a validity that has not ended at the clock's instant had not ended at the load.
	until := e.validUntil.Load()
	now := e.clock.moment()
	if until <= now {
		return 0
	}
	return time.Duration(until-now) * time.Microsecond
}

// Term returns the term that this process leads now, or nil.
func (e *Elector) Term() *Term {
	view, _ := e.current()
	// In this order: the next term begins after the end of this one, so a term that is not over was the leading one.
	if view.term == nil || !e.IsLeader() || view.term.isOver() {
		return nil
	}
	return view.term
}

// Token returns the token of the term that this process leads now, by which others can reject late writes of earlier
// terms. It is false if this process does not lead.
func (e *Elector) Token() (token uint64, ok bool) {
	term := e.Term()
	if term == nil {
		return 0, false
	}
	return term.Token, true
}

// Holder returns the identity that holds the Lease, or nothing if none is known.
func (e *Elector) Holder() string {
	view, _ := e.current()
	if view.holderUntil <= e.clock.moment() {
		return ""
	}
	return view.holder
}

// Obstacle returns what keeps this elector from leading until a person changes it, or nothing.
func (e *Elector) Obstacle() string {
	view, _ := e.current()
	return view.obstacle
}

// Err returns why the elector has ended, or nil.
func (e *Elector) Err() error {
	view, _ := e.current()
	return view.err
}

// Check returns an error if the elector is dead, has been stuck for longer than the tolerance, at least 1 s, or will not lead
// again because work has outlived the grace of its term. Use it as a health check that restarts the process.
func (e *Elector) Check(tolerance time.Duration) error {
	if term := e.overdue.Load(); term != nil && !term.work.isIdle() {
		return fmt.Errorf("term %d of Lease %s: %w", term.Number, e.name, ErrWorkDidNotStop)
	}
	if err := e.Err(); err != nil && !errors.Is(err, ErrStopped) {
		return fmt.Errorf("the elector of Lease %s will not lead again: %w", e.name, err)
	}
	// Each step is a little late, and takes a moment. Where none is due, this is so far below zero that it does not fit a
	// Duration.
	if stuck := e.clock.moment() - e.dueAt.Load(); e.Err() == nil && stuck > max(tolerance, longestTimer).Microseconds() {
		return fmt.Errorf("the elector of Lease %s has been stuck for %s", e.name, time.Duration(stuck)*time.Microsecond)
	}
	return nil
}

// Resign ends the present term, if there is one: see [Term.Resign].
func (e *Elector) Resign() {
	if term := e.Term(); term != nil {
		term.Resign()
	}
}

// Abandon ends the elector at once without giving the Lease up: this process no longer leads, and the Lease expires. Use
// it if the work cannot be stopped, or if it is not known whether it has ended, and then exit the process. Another elector
// of this process in the same container may take the Lease back at once, unless [Term.Hold] registers such work. Abandon
// also frees an elector that has not run, and that then never will.
func (e *Elector) Abandon() {
	e.die(ErrAbandoned)
	if e.started.CompareAndSwap(false, true) {
		e.close()
	}
}

// current returns what readers see, and a channel that is closed when that changes.
func (e *Elector) current() (view, <-chan struct{}) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.view, e.changed
}

// update changes the view, unless the elector has ended.
func (e *Elector) update(change func(*view)) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.view.err == nil {
		change(&e.view)
		close(e.changed)
		e.changed = make(chan struct{})
	}
}

// die ends the elector: it will never lead again.
func (e *Elector) die(err error) {
	e.update(func(view *view) {
		e.validUntil.Store(never)
		if view.term != nil {
			view.term.end()
			view.term.cancel()
			for _, observer := range e.observers {
				observer.ended("")
			}
		}
		view.term, view.holder, view.err = nil, "", err
	})
	e.ranges.stopFailingOpen()
	e.end()
}
