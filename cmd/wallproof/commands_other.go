//go:build !linux

package main

import "github.com/urfave/cli/v2"

// platformCommands: the boundary needs Linux; what signs, verifies and
// publishes runs everywhere.
func platformCommands() []*cli.Command { return nil }
