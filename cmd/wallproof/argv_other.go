//go:build !linux

package main

// takeArgs returns the arguments: no command here takes what is to be kept from
// the process table.
func takeArgs(args []string) []string { return args }
