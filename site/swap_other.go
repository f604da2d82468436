//go:build !linux

package site

// swap replaces one folder by another, in two steps.
func swap(dir, out string) error { return aside(dir, out) }
