// Package command holds what all our command lines have in common: exit codes, the
// one way of reporting a wrong command line, flags in any place, forms of output,
// files that flags name.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/internal/version"
)

// Exit codes, for every command: 0 valid and current (run: nothing escaped and all
// conclusive), 1 usage or I/O, 2 invalid, 3 valid but held.
const (
	Usage = 1
	Bad   = 2
	Held  = 3
)

// Exit ends the program with a code. A nil Err prints nothing more: the command has
// said what there is to say.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Invalid gives an error about what was read the exit code of what is invalid.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &Exit{Code: Bad, Err: err}
}

// Short commands are over before a first collection of garbage would pay for
// itself: with the heap that starting alone leaves, it would come in the middle of
// them. So the first one comes later.
func Short() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(shortGC)
	}
}

const shortGC = 200 // percent; the default is 100

// Main runs a program's command line and ends the program.
func Main(app *cli.App, args []string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Run(ctx, app, args)
	stop()
	os.Exit(code)
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, app *cli.App, args []string) int {
	err := app.RunContext(ctx, flagsFirst(app, args))
	if err == nil {
		return 0
	}
	var exit *Exit
	code := Usage
	if errors.As(err, &exit) {
		code = exit.Code
		if exit.Err == nil {
			return code
		}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "wallproof: interrupted; everything that was started has been stopped")
		return Usage
	}
	term.Error(os.Stderr, err)
	return code
}

// NewApp is a program with its commands.
func NewApp(name, usage string, commands []*cli.Command) *cli.App {
	app := cli.NewApp()
	app.Name = name
	app.Usage = usage
	app.Version = version.String()
	app.HideVersion = true
	app.DisableSliceFlagSeparator = true // a comma is part of a value; a flag that takes several is repeated
	app.EnableBashCompletion = true
	app.Suggest = true
	app.Commands = append(commands, Version(), Completion(name))
	app.OnUsageError = usageError(name)
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.CommandNotFound = func(*cli.Context, string) {}
	app.Action = func(c *cli.Context) error {
		if c.Args().Present() {
			return fmt.Errorf("no command %q; `%s --help` lists them", c.Args().First(), name)
		}
		return cli.ShowAppHelp(c)
	}
	for _, c := range app.Commands {
		withUsageError(name, c)
	}
	return app
}

// withUsageError gives a command and all below it the one way of reporting a
// wrong command line.
func withUsageError(program string, c *cli.Command) {
	c.OnUsageError = usageError(program)
	for _, sub := range c.Subcommands {
		withUsageError(program, sub)
	}
}

func usageError(program string) cli.OnUsageErrorFunc {
	return func(c *cli.Context, err error, _ bool) error {
		name := program
		if c.Command != nil && c.Command.Name != "" && c.Command.Name != program {
			name += " " + c.Command.FullName()
		}
		return fmt.Errorf("%w; `%s --help` shows what there is", err, name)
	}
}
