//go:build !amd64

package env

// callsOfMachine are calls that only some kinds of machines have.
var callsOfMachine []call
