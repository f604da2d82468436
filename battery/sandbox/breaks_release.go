//go:build !breaks

package sandbox

// Breaks are the seeded breaks of a sandbox's isolation. A release build has
// none: the type is empty, and drivers find nothing to do.
type Breaks struct{}

// SharesIDs reports whether ids inside are the host's although they need not be.
func (Breaks) SharesIDs() bool { return false }
