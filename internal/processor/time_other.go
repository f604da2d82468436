//go:build !linux

// Package processor tells benchmarks how much processor time they used.
package processor

import "time"

var started = time.Now()

// Time is the time that has passed, where no other is at hand.
func Time() time.Duration { return time.Since(started) }
