// Command wallproof attacks the sandboxes that run untrusted code, records
// what happened on both sides of the boundary, signs the record, verifies it
// offline and publishes it. One file a command; each is wiring only.
//
// Exit codes, for every command: 0 valid and current (run: nothing escaped and
// all conclusive), 1 usage or I/O, 2 invalid, 3 valid but held.
package main

import (
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/front"
	"github.com/wallproof/wallproof/internal/reexec"
	"github.com/wallproof/wallproof/internal/term"
)

// short are the commands that are over soon.
var short = []string{"verify", "gate", "inspect", "prove", "version", "policy", "live", "verify-bundle"}

func main() {
	if err := front.Check(); err != nil {
		term.Error(os.Stderr, err)
		os.Exit(command.Usage)
	}
	if code, ok := reexec.Main(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && slices.Contains(short, os.Args[1]) {
		command.Short()
	}
	command.Main(newApp(), takeArgs(os.Args))
}

func newApp() *cli.App {
	return command.NewApp("wallproof", "attack a sandbox, sign what happened, let anyone re-verify it", append(platformCommands(), verifyCommands()...))
}
