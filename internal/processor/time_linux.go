// Package processor tells benchmarks how much processor time they used, which other
// work on the machine changes less than the time that passes.
package processor

import (
	"time"

	"golang.org/x/sys/unix"
)

// Time is what the calling thread has used so far. A goroutine that compares two such
// times is locked to its thread (runtime.LockOSThread).
func Time() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
