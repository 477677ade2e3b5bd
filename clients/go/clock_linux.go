package hustings

import "golang.org/x/sys/unix"

// boottimeMicros reads CLOCK_BOOTTIME. Unlike Go's own monotonic clock, it counts the time of a suspension.
func boottimeMicros() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		// Every Linux since 2.6.39 has this clock.
		panic("hustings: cannot read CLOCK_BOOTTIME: " + err.Error())
	}
	return now.Nano() / 1000
}
