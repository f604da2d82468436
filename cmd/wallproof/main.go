// Command wallproof attacks the sandboxes that run untrusted code, records
// what happened on both sides of the boundary, signs the record, verifies it
// offline and publishes it. One file a command; each is wiring only.
//
// Exit codes, for every command: 0 valid and current (run: nothing escaped and
// all conclusive), 1 usage or I/O, 2 invalid, 3 valid but held.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/reexec"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/internal/version"
)

// Exit codes, see the package comment.
const (
	exitUsage   = 1
	exitInvalid = 2
	exitHeld    = 3
)

// exitError ends the program with a code. A nil err prints nothing more: the
// command has said what there is to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// short are the commands that are over before a first collection of garbage would
// pay for itself: with the heap that starting alone leaves, it would come in the
// middle of them.
var short = []string{"verify", "gate", "inspect", "prove", "version", "policy", "live", "verify-bundle"}

const shortGC = 200 // percent; the default is 100

func main() {
	if code, ok := reexec.Main(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Getenv("GOGC") == "" && slices.Contains(short, os.Args[1]) {
		debug.SetGCPercent(shortGC)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, takeArgs(os.Args))
	stop()
	os.Exit(code)
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string) int {
	app := newApp()
	args = flagsFirst(app, args)
	err := app.RunContext(ctx, args)
	if err == nil {
		return 0
	}
	var exit *exitError
	code := exitUsage
	if errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "wallproof: interrupted; everything that was started has been stopped")
		return exitUsage
	}
	term.Error(os.Stderr, err)
	return code
}

func newApp() *cli.App {
	app := cli.NewApp()
	app.Name = "wallproof"
	app.Usage = "attack a sandbox, sign what happened, let anyone re-verify it"
	app.Version = version.String()
	app.HideVersion = true
	app.DisableSliceFlagSeparator = true // a comma is part of a value; a flag that takes several is repeated
	app.EnableBashCompletion = true
	app.Suggest = true
	app.Commands = append(platformCommands(), verifyCommands()...)
	app.OnUsageError = usageError
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.CommandNotFound = func(*cli.Context, string) {}
	app.Action = func(c *cli.Context) error {
		if c.Args().Present() {
			return fmt.Errorf("no command %q; `wallproof --help` lists them", c.Args().First())
		}
		return cli.ShowAppHelp(c)
	}
	for _, c := range app.Commands {
		withUsageError(c)
	}
	return app
}

// withUsageError gives a command and all below it the one way of reporting a
// wrong command line.
func withUsageError(c *cli.Command) {
	c.OnUsageError = usageError
	for _, sub := range c.Subcommands {
		withUsageError(sub)
	}
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "wallproof"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "wallproof" {
		name += " " + c.Command.FullName()
	}
	return fmt.Errorf("%w; `%s --help` shows what there is", err, name)
}
