// Command wallproof-verify is what an auditor needs and nothing else: it verifies
// evidence offline, inspects it, takes rows out of it, gates scorecards. Its
// commands are the ones of wallproof, with the same arguments, output, reason codes
// and exit codes. What would open a socket or use a private key is not in it.
//
// `make build` builds it by internal/tools/slim; a plain build does the same and
// starts more slowly.
package main

import (
	"os"

	"github.com/wallproof/wallproof/internal/auditor"
)

func main() { auditor.Main(os.Args) }
