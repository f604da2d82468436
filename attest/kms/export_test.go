//go:build unix

package kms

import "time"

// SetCallTimeout changes the bound of a helper's call, and returns what sets it back.
func SetCallTimeout(d time.Duration) (restore func()) {
	old := callTimeout
	callTimeout = d
	return func() { callTimeout = old }
}
