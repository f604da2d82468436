//go:build !linux

package reexec

// Main: only Linux has the boundary, so there is nothing to start.
func Main([]string) (code int, ok bool) { return 0, false }
