//go:build !breaks

package proxy

import "github.com/wallproof/wallproof/policy/proxy/redact"

// Breaks is empty in a release build: there is nothing to switch off.
type Breaks struct{}

// The questions below are constants in a release build, so that the compiler
// leaves out what they guard.

func (Breaks) skip(protection) bool { return false }

func redactForms(*Config) redact.Forms { return redact.AllForms }

func (Breaks) swapAnywhere(*rules, *request) []string { return nil }
