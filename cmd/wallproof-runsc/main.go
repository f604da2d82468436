// Command wallproof-runsc is gVisor's OCI runtime (runsc), linked as a Go
// module, so that the default sandbox needs nothing downloaded or installed.
//
// It is a Go module of its own because gVisor and the container clients need
// different versions of the OCI runtime specification; see docs/dependencies.md.
package main

import "gvisor.dev/gvisor/runsc/cli/maincli"

func main() {
	maincli.Main()
}
