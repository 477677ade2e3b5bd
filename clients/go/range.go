package hustings

import (
	"sync"
	"time"

	"hustings.io/go/internal/core"
)

// ranges is the time range of a process, and the instants that the process reported as its own. One lock covers
// decisions and answers, because a decision may close the range.
type ranges struct {
	mutex sync.Mutex
	owned *core.Range
	// reported is the latest instant that this process reported as its own, in microseconds of the wall clock.
	reported int64
}

// A TimeRange is the wall-clock time that a process owns, as far as it knows.
type TimeRange struct {
	// Start is the first instant.
	Start time.Time
	// End is the first instant that the process does not own, unless it renews. Zero if the range has no end.
	End time.Time
	// FailingOpen means that the range continued after its end because no other replica was known to have taken over.
	// Another replica's range may overlap it.
	FailingOpen bool
}

// unboundedUs is the end of a range that fails open without a bound.
const unboundedUs = 253402207200000000

// Range returns the time range of the last term that this process led, whether or not it still leads. It is false if it
// never led.
func (e *Elector) Range() (TimeRange, bool) {
	e.ranges.mutex.Lock()
	defer e.ranges.mutex.Unlock()
	owned := e.ranges.owned
	if owned == nil {
		return TimeRange{}, false
	}
	found := TimeRange{Start: time.UnixMicro(owned.StartUs), End: time.UnixMicro(owned.EndUs)}
	if until := owned.FailsOpenUntilUs; until != nil && e.clock.wall() >= owned.EndUs {
		found.FailingOpen, found.End = true, time.UnixMicro(*until)
		if *until >= unboundedUs {
			found.End = time.Time{}
		}
	}
	return found, true
}

// Contains returns whether this process owns an instant, such as the time stamp of a data point. It is never true for
// the same instant in two processes, whenever they ask, unless one of them fails open. It is false for an instant that
// the wall clock of this process has not shown yet.
func (e *Elector) Contains(instant time.Time) bool {
	at := instant.UnixMicro()
	e.ranges.mutex.Lock()
	defer e.ranges.mutex.Unlock()
	owned := e.ranges.owned
	if owned == nil || at < owned.StartUs || at > e.clock.wall() {
		return false
	}
	end := owned.EndUs
	if owned.FailsOpenUntilUs != nil {
		end = *owned.FailsOpenUntilUs
	}
	if at >= end {
		return false
	}
	e.ranges.reported = max(e.ranges.reported, at)
	return true
}

// isFailingOpen returns whether the range continues after its end. Alert on it.
func (e *Elector) isFailingOpen() bool {
	found, ok := e.Range()
	return ok && found.FailingOpen && (found.End.IsZero() || e.clock.wall() < found.End.UnixMicro())
}

// stopFailingOpen ends failing open. Without an elector, this process would not observe that another has taken over.
func (r *ranges) stopFailingOpen() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.owned != nil {
		closed := *r.owned
		closed.FailsOpenUntilUs = nil
		r.owned = &closed
	}
}
