package hustings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Wait waits until this process leads. Work that begins then must use [Term.Hold]. The error is that of the context, or of
// the elector if it has ended.
func (e *Elector) Wait(ctx context.Context) (*Term, error) { return e.nextTerm(ctx, nil) }

// Run stands for the Lease until the context is done, and calls lead once in each term.
//
// The context of lead is done when the term must end. The elector gives the Lease up only after lead, and everything that
// [Term.Hold] has registered, has ended. If that does not happen within [Timing.StopGrace], this process no longer leads,
// and its Lease expires. So it does if the server takes no release soon after a stop has ended the work, within two request
// timeouts and a second; Run then returns nil, too. A return of lead on its own does not end the term: see [Term.Resign].
// After the loss of a term, the elector stands again.
//
// If lead panics, the elector gives the Lease up, for which it has 5 s, and then the panic continues in the caller of Run;
// if Run has returned, it ends the process. An elector runs once.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, term *Term)) error {
	if !e.started.CompareAndSwap(false, true) {
		return errStarted
	}
	go e.loop(ctx)
	if e.options.OnNewLeader != nil {
		go e.reportHolders()
	}
	returned := make(chan struct{})
	defer close(returned)
	var former *Term
	for {
		term, err := e.nextTerm(context.Background(), former)
		if err != nil {
			break
		}
		former = term
		release, ok := term.Hold()
		if !ok {
			continue
		}
		go term.supervise()
		go term.abortAfterDeath()
		done := make(chan *panicked)
		go func() {
			var panics *panicked
			defer release()
			defer func() {
				select {
				case done <- panics:
				case <-returned:
					if panics != nil {
						panic(panics)
					}
				}
			}()
			defer func() {
				if value := recover(); value != nil {
					panics = &panicked{value, debug.Stack()}
				}
			}()
			lead(term.stop, term)
		}()
		var panics *panicked
		select {
		case panics = <-done:
		case <-e.ended.Done():
			if err := e.Err(); !errors.Is(err, ErrStopped) && !errors.Is(err, ErrAbandoned) {
				// The elector is dead. Its Lease expires, however soon the work stops.
				select {
				case panics = <-done:
				case <-term.Aborted():
				}
			}
		}
		if panics != nil {
			e.log.Error("the work panicked: giving the Lease up", "panic", panics.value, "stack", string(panics.stack))
			e.stop("panicked")
			select {
			case <-e.ended.Done():
			case <-time.After(panicGrace):
			}
			panic(panics)
		}
	}
	// While work is left, another instance would have to wait for it.
	err := e.Err()
	if former == nil || former.work.isIdle() {
		e.unlock()
	} else {
		go func() {
			<-former.work.idle
			e.unlock()
		}()
		if errors.Is(err, ErrStopped) {
			err = ErrWorkDidNotStop
		}
	}
	if errors.Is(err, ErrStopped) {
		return nil
	}
	return fmt.Errorf("the elector of Lease %s will not lead again: %w", e.name, err)
}

// panicGrace is how long a process whose work has panicked may take to give its Lease up. If it takes longer, the Lease
// expires.
const panicGrace = 5 * time.Second

// releaseGrace is how long a stopped elector whose work has ended may take to give its Lease up: one request may hang, and the
// next one has a new connection.
func (e *Elector) releaseGrace() time.Duration {
	return 2*cmp.Or(e.timing.RequestTimeout, 5*time.Second) + time.Second
}

// A panicked is a panic of the work that continues in the caller of Run.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value of the panic if it is an error, such as a runtime.Error.
func (p *panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// stop stops the elector gracefully. Only the first cause counts.
func (e *Elector) stop(cause string) {
	select {
	case e.stops <- cause:
	default:
	}
}

// endAfterWork ends a stopped elector, whose last term this is, soon after the work has ended. The core alone would try to
// release the Lease until it expires, and the process would wait for a server that is down.
func (e *Elector) endAfterWork(last *Term) {
	holds := last != nil && !last.isOver()
	if last != nil {
		select {
		case <-last.work.idle:
			<-last.writes.close()
		case <-e.ended.Done():
			return
		}
	}
	select {
	case <-time.After(e.releaseGrace()):
		if holds {
			e.log.Warn("cannot give the Lease up: it expires")
		}
		e.die(ErrStopped)
	case <-e.ended.Done():
	}
}

// nextTerm waits for a running term other than the former one.
func (e *Elector) nextTerm(ctx context.Context, former *Term) (*Term, error) {
	for {
		view, changed := e.current()
		if view.err != nil {
			return nil, view.err
		}
		if term := e.Term(); term != nil && term != former {
			return term, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// reportHolders calls OnNewLeader on each change of the holder.
func (e *Elector) reportHolders() {
	reported := 0
	for {
		view, changed := e.current()
		if view.holderChanges != reported {
			reported = view.holderChanges
			e.options.OnNewLeader(view.newHolder)
		}
		select {
		case <-changed:
		case <-e.ended.Done():
			return
		}
	}
}
