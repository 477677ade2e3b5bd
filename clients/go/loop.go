package hustings

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"hustings.io/go/internal/core"
)

// An incoming is an event for the core, with its body. The zero incoming means that nothing has happened.
type incoming struct {
	event core.Event
	body  []byte
}

// loop carries out the decisions of the core. It decides nothing itself. However it ends, this process then never leads
// again; unless the core has given the Lease up, the Lease expires.
func (e *Elector) loop(ctx context.Context) {
	var err error
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("its loop panicked: %v\n\n%s", value, debug.Stack())
		}
		e.die(err)
		e.instance.Close()
		e.connections.close()
	}()
	err = e.run(ctx)
}

func (e *Elector) run(ctx context.Context) error {
	incomings := make(chan incoming)
	report := func(event core.Event, body []byte) {
		select {
		case incomings <- incoming{event, body}:
		case <-e.ended.Done():
		}
	}
	stopping, keys := ctx.Done(), e.options.Keys
	var term *Term // the last one
	var next incoming
	for {
		e.dueAt.Store(e.clock.moment())
		decision, err := e.step(ctx, next)
		if err != nil {
			return err
		}
		term = e.carryOut(decision, term, report)
		if decision.Finished {
			return ErrStopped
		}
		e.dueAt.Store(math.MaxInt64)
		if decision.DeadlineUs != nil {
			e.dueAt.Store(*decision.DeadlineUs)
		}
	waiting:
		for {
			wait := time.Duration(math.MaxInt64)
			if decision.DeadlineUs != nil {
				left := *decision.DeadlineUs - e.clock.moment()
				if left <= 0 {
					next = incoming{}
					break waiting
				}
				wait = boundedTimer(left)
			}
			timer := time.NewTimer(wait)
			select {
			case next = <-incomings:
			case <-stopping:
				stopping = nil
				go e.endAfterWork(term)
				next = incoming{event: core.Event{Event: "stop"}}
			case cause := <-e.stops:
				stopping = nil
				next = incoming{event: core.Event{Event: "stop", Cause: cause}}
			case <-e.resigned:
				if view, _ := e.current(); view.term == nil || !view.term.resigning.Load() {
					continue
				}
				next = incoming{event: core.Event{Event: "resign"}}
			case key, ok := <-keys:
				if !ok {
					keys = nil
					continue
				}
				next = incoming{event: core.Event{Event: "key", Key: keyText(key)}}
			case <-e.ended.Done():
				return e.Err()
			case <-timer.C:
				continue
			}
			timer.Stop()
			break
		}
	}
}

// step lets the core decide, and publishes its decision, all under the lock of the time range, which the decision may
// close. The clocks are read immediately before, since a term counts from that reading.
func (e *Elector) step(ctx context.Context, next incoming) (*core.Decision, error) {
	head, err := next.head()
	if err != nil {
		return nil, err
	}
	e.ranges.mutex.Lock()
	defer e.ranges.mutex.Unlock()
	draw := rand.Uint32()
	moment, wall := e.clock.moment(), max(e.clock.wall(), e.ranges.reported+1)
	decision, err := e.instance.Step(e.handle, moment, wall, draw, head, next.body)
	if err != nil {
		return nil, err
	}
	e.publish(ctx, decision)
	e.ranges.owned = decision.Range
	return decision, nil
}

// publish puts into force whether this process leads.
func (e *Elector) publish(ctx context.Context, decision *core.Decision) {
	leading := decision.Leading
	e.update(func(view *view) {
		former := view.term
		if former != nil && (leading == nil || former.Token != leading.Token) {
			e.validUntil.Store(never)
			former.end()
			former.cancel()
			view.term = nil
			for _, observer := range e.observers {
				observer.ended(decision.LeaseUID)
			}
		}
		if leading != nil {
			if view.term == nil {
				view.term = newTerm(ctx, e, leading.Number, leading.Token)
				for _, observer := range e.observers {
					observer.began(decision.LeaseUID)
				}
			}
			e.validUntil.Store(leading.ValidUntilUs)
		}
		view.holder, view.holderUntil = "", never
		if holder := decision.Holder; holder != nil {
			view.holder, view.holderUntil = holder.Identity, math.MaxInt64
			if holder.ExpiresAtUs != nil {
				view.holderUntil = *holder.ExpiresAtUs
			}
		}
		if change := decision.HolderChange; change != nil {
			view.newHolder = change.Holder
			view.holderChanges++
		}
		view.obstacle = ""
		if obstacle := decision.Obstacle; obstacle != nil {
			view.obstacle = obstacle.Text
		}
	})
}

// carryOut carries out a decision that is in force. It returns the last term.
func (e *Elector) carryOut(decision *core.Decision, last *Term, report func(core.Event, []byte)) *Term {
	if view, _ := e.current(); view.term != nil {
		last = view.term
	}
	if decision.StopWork {
		stopped := core.Event{Event: "work-stopped"}
		if last == nil {
			go report(stopped, nil)
		} else {
			last.cancel()
			worked := last.work.close()
			go func() {
				<-worked
				// From here on the gate admits no write. Each write under way has a deadline.
				<-last.writes.close()
				report(stopped, nil)
			}()
		}
	}
	if decision.AbortWork && last != nil {
		last.abort()
	}
	for _, request := range decision.Requests {
		e.connections.send(e.ended, &request, report)
	}
	e.connections.cancel(decision.Cancel)
	if renewal := decision.Renewal; renewal != nil {
		for _, observer := range e.observers {
			observer.renewed(time.Duration(renewal.TookUs)*time.Microsecond, renewal.Succeeded)
		}
	}
	for _, note := range decision.Notes {
		e.logNote(note)
	}
	return last
}

func (e *Elector) logNote(note core.Note) {
	level := slog.LevelError
	switch note.Level {
	case "debug":
		level = slog.LevelDebug
	case "info":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	}
	fields := []slog.Attr{slog.String("code", note.Code)}
	for _, name := range slices.Sorted(maps.Keys(note.Fields)) {
		fields = append(fields, slog.Any(name, note.Fields[name]))
	}
	e.log.LogAttrs(context.Background(), level, note.Text, fields...)
}

func keyText(key *int64) *string {
	if key == nil {
		return nil
	}
	text := strconv.FormatInt(*key, 10)
	return &text
}

// head returns the event as the core reads it.
func (i incoming) head() ([]byte, error) {
	if i.event.Event == "" {
		return nil, nil
	}
	return json.Marshal(i.event)
}

// An observer observes one elector, for metrics and events. It must return quickly.
type observer interface {
	// began and ended report terms. The UID of the Lease may be empty.
	began(leaseUID string)
	ended(leaseUID string)
	renewed(took time.Duration, succeeded bool)
}
