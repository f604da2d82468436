package main

import (
	"strings"
	"unsafe"
)

// A command line is public: any user of the machine reads it in the process
// table. So the value of --env NAME=VALUE is taken out of ours as soon as we have
// it. For a moment it was there: --env NAME, which takes the value from the
// environment, never shows it.

// takeArgs returns the arguments, and masks in the process's own copy of them what
// is to be kept from the process table.
func takeArgs(args []string) []string {
	own := make([]string, len(args))
	for i, a := range args {
		own[i] = strings.Clone(a)
	}
	for i, a := range own {
		if a == "--" {
			break
		}
		name, rest, joined := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !strings.HasPrefix(a, "-") || name != "e" && name != "env" {
			continue
		}
		switch {
		case joined:
			mask(args[i], len(a)-len(rest))
		case i+1 < len(args):
			mask(args[i+1], 0)
		}
	}
	return own
}

// mask overwrites the value of NAME=VALUE, which begins at an offset, where it
// lies. The arguments of a process are its own memory and nobody else's; the
// run-time's strings of them point there.
func mask(arg string, offset int) {
	_, value, ok := strings.Cut(arg[offset:], "=")
	if !ok || value == "" {
		return
	}
	b := unsafe.Slice(unsafe.StringData(value), len(value))
	for i := range b {
		b[i] = '*'
	}
}
