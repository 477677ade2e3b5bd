package hustings

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Term is one term of this process: from when it takes the Lease up until it loses the Lease or gives it up. The end
// of a term is final.
type Term struct {
	// Number is spec.leaseTransitions at the beginning of the term.
	Number uint32
	// Token grows with every term of the Lease, even across a deletion of the Lease. A write under a lower token is
	// stale: see docs/fencing.md.
	Token uint64

	elector *Elector
	// The work must stop, while the term may go on.
	stop   context.Context
	cancel context.CancelFunc
	// The term is over: no write may begin in it any more.
	over context.Context
	end  context.CancelFunc
	// The work has used up its grace.
	aborted   chan struct{}
	abort     func()
	resigning atomic.Bool

	work tracker
	// Writes through a gate. The gate admits them while work runs, because the work may need them in order to stop.
	writes tracker
}

func newTerm(parent context.Context, elector *Elector, number uint32, token uint64) *Term {
	term := &Term{Number: number, Token: token, elector: elector, aborted: make(chan struct{})}
	term.stop, term.cancel = context.WithCancel(context.WithoutCancel(parent))
	term.over, term.end = context.WithCancel(context.Background())
	term.abort = sync.OnceFunc(func() {
		elector.overdue.Store(term)
		close(term.aborted)
	})
	term.work.idle, term.writes.idle = make(chan struct{}), make(chan struct{})
	return term
}

// Context is done when the work of the term must stop: when the term ends, or is about to be given up.
func (t *Term) Context() context.Context { return t.stop }

// Over is closed when the term has ended: the process no longer leads by it.
func (t *Term) Over() <-chan struct{} { return t.over.Done() }

// Aborted is closed when the work has not stopped within its grace. The process no longer leads, and its Lease expires.
// Another replica may lead soon: a program that cannot stop its work should exit.
func (t *Term) Aborted() <-chan struct{} { return t.aborted }

// Resign ends the term: the elector stops the work, gives the Lease up, and stands aside for 5 s before it campaigns
// again, for longer after each further resignation. Resigning a term that is over has no effect.
func (t *Term) Resign() {
	t.resigning.Store(true)
	select {
	case t.elector.resigned <- struct{}{}:
	default:
		// The elector has not seen the last signal yet.
	}
}

// Hold registers work that outlives the function that [Elector.Run] calls. The elector does not give the Lease up before
// the returned function is called. Hold returns false if no work may begin any more.
func (t *Term) Hold() (release func(), ok bool) {
	if !t.work.begin() {
		return nil, false
	}
	release = sync.OnceFunc(t.work.end)
	if t.stop.Err() != nil || t.elector.Remaining() == 0 {
		// This process may have been frozen since the term began.
		release()
		t.lapse()
		return nil, false
	}
	return release, true
}

// lapse stops the work because the validity is over by the clock: the elector is stuck, or is about to end the term
// itself. If a renewal succeeded at the last moment, the elector must give the Lease up.
func (t *Term) lapse() {
	if t.stop.Err() == nil {
		t.cancel()
		t.Resign()
	}
}

// supervise stops the work by the clock, without a word from the elector, which may be stuck: when the validity has
// ended, and again one grace later.
func (t *Term) supervise() {
	e := t.elector
	for {
		// A live elector stops the work earlier.
		until := e.validUntil.Load()
		if until != never {
			until += lateness.Microseconds()
		}
		if !e.clock.sleepUntil(t.over, until) {
			return
		}
		if e.Remaining() == 0 && t.over.Err() == nil {
			break
		}
	}
	t.lapse()
	if e.clock.sleepUntil(t.over, e.clock.moment()+e.timing.StopGrace.Microseconds()) {
		t.abort()
	}
}

// abortAfterDeath aborts work that outlives the elector, whose loop would do it otherwise, by its grace.
func (t *Term) abortAfterDeath() {
	select {
	case <-t.work.idle:
		return
	case <-t.elector.ended.Done():
	}
	select {
	case <-t.work.close():
	case <-time.After(t.elector.timing.StopGrace):
		t.abort()
	}
}

// isOver returns whether no write may begin in the term.
func (t *Term) isOver() bool { return t.over.Err() != nil }

// A tracker counts what must end before a Lease may be given up.
type tracker struct {
	mutex  sync.Mutex
	count  int
	closed bool
	idle   chan struct{}
}

// begin returns whether something more may begin.
func (t *tracker) begin() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.closed {
		return false
	}
	t.count++
	return true
}

func (t *tracker) end() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.count--
	t.closeIfIdle()
}

// close lets nothing more begin. The channel is closed when everything has ended.
func (t *tracker) close() <-chan struct{} {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.closed = true
	t.closeIfIdle()
	return t.idle
}

// isIdle returns whether everything has ended. It lets nothing more begin.
func (t *tracker) isIdle() bool {
	select {
	case <-t.close():
		return true
	default:
		return false
	}
}

func (t *tracker) closeIfIdle() {
	if t.closed && t.count == 0 {
		select {
		case <-t.idle:
		default:
			close(t.idle)
		}
	}
}
