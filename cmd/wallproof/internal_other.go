//go:build !linux

package main

// runInternal: only Linux has the boundary.
func runInternal([]string) (code int, ok bool) { return 0, false }
