// Command wallproof-runsc is gVisor's OCI runtime (runsc), linked as a Go
// module, so that the default sandbox needs nothing downloaded or installed.
//
// It is a Go module of its own because gVisor and the container clients need
// different versions of the OCI runtime specification; see docs/dependencies.md.
//
// Started under the name wallproof-copyin it is instead the helper that writes
// one file inside a sandbox (see copyIn). The driver hands this very program
// into the sandbox as an open descriptor, so that nothing of the image is
// needed to copy a file in.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cli/maincli"
)

func main() {
	if len(os.Args) > 0 && os.Args[0] == copyInName {
		if err := copyIn(os.Args[1:], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The mount points that it makes must not depend on who calls.
	unix.Umask(0o022)
	maincli.Main()
}
