// Command wallproof-probe is what Wallproof runs inside a sandbox. It is static,
// uses no program, library, environment variable or configuration of the image,
// and works as any user, on a read-only root file system without /tmp.
//
//	wallproof-probe run    make the attempts of a plan (one line of JSON on standard input)
//	wallproof-probe hold [FIRST]  be a sandbox's first process: make the first attempts (JSON), then do nothing, reap children
//	wallproof-probe seed   plant what a plan on standard input says, and hold it
//	wallproof-probe serve  be the neighbour: hold canaries of one's own, answer the nonces that arrive
//	wallproof-probe prepare  make folders and files that a plan on standard input says
//	wallproof-probe await  wait for the services that a plan on standard input says
//	wallproof-probe end    end every other process (root)
//	wallproof-probe halt   stop every other process (root); resume lets them go on
//	wallproof-probe reach URL…  tell which sites answer, with the proxy and without, and which variables look like keys
//	wallproof-probe draw   draw random bytes and print their digests by source, as JSON
//	wallproof-probe facts  print what isolates this process, as JSON
//
// Exit codes: 0 done, 1 usage or input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/wallproof/wallproof/probes/inside"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/planter"
)

// commands are the subcommands, each with standard input and output.
var commands = map[string]func(ctx context.Context, in io.Reader, out io.Writer) error{
	"run":               run,
	planter.HoldCommand: hold,
	"seed":              seed,
	"serve":             serve,
	"facts":             facts,
	"draw": func(_ context.Context, _ io.Reader, out io.Writer) error {
		return json.NewEncoder(out).Encode(kit.Draws())
	},
	"prepare": func(_ context.Context, in io.Reader, _ io.Writer) error { return inside.Prepare(in) },
	"await":   func(ctx context.Context, in io.Reader, _ io.Writer) error { return inside.Await(ctx, in) },
	"end":     func(context.Context, io.Reader, io.Writer) error { return inside.End() },
	"halt":    func(context.Context, io.Reader, io.Writer) error { return inside.Halt() },
	"resume":  func(context.Context, io.Reader, io.Writer) error { return inside.Resume() },
}

func main() {
	if n := len(os.Args); n > 1 && os.Args[n-1] == planter.HoldArgument {
		planter.HoldUntilEOF(os.Stdin)
		return
	}
	if kit.IsChild(os.Args[1:]) {
		end(kit.ChildMain(os.Args[1:], os.Stdout))
	}
	if len(os.Args) > 2 && os.Args[1] == "reach" {
		end(inside.Reach(context.Background(), os.Stdout, os.Args[2:]))
	}
	if len(os.Args) == 3 && os.Args[1] == planter.HoldCommand {
		first = os.Args[2]
	} else if len(os.Args) != 2 {
		usage()
	}
	command, ok := commands[os.Args[1]]
	if !ok {
		usage()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	end(command(ctx, os.Stdin, os.Stdout))
}

// end ends the process, with an error if there is one.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "wallproof-probe:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: wallproof-probe run|hold|seed|serve|draw|facts|prepare|await|end|halt|resume|reach URL…")
	os.Exit(1)
}
