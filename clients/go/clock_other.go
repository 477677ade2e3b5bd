//go:build !linux

package hustings

import "time"

var started = time.Now()

// boottimeMicros reads Go's monotonic clock, which may stop while the machine is suspended. Use a system other than
// Linux for development only.
func boottimeMicros() int64 { return time.Since(started).Microseconds() }
