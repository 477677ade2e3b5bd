package hustings

import (
	"context"
	"time"
)

// longestTimer bounds how long a timer may run before the clock is read again: timers stop while the machine is
// suspended, but the clock counts on.
const longestTimer = time.Second

// A clock has the two clocks of a process, in microseconds.
type clock struct {
	// moment is the local clock. It never runs backwards, and counts the time of a suspension.
	moment func() int64
	// wall is the wall clock. Its values are written into objects, and compared only with times that this process wrote.
	wall func() int64
}

var systemClock = clock{moment: boottimeMicros, wall: func() int64 { return time.Now().UnixMicro() }}

// sleepUntil returns true when the clock shows the moment, or false as soon as the context is done.
func (c clock) sleepUntil(ctx context.Context, moment int64) bool {
	for {
		left := moment - c.moment()
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(boundedTimer(left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// boundedTimer is the time after which to read the clock again, for an event that is this many microseconds away.
func boundedTimer(micros int64) time.Duration {
	return time.Duration(min(max(micros, 0), longestTimer.Microseconds())) * time.Microsecond
}
