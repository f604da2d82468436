//go:build !breaks

package proxy

// Breaks is empty in a release build: there is nothing to switch off.
type Breaks struct{}
