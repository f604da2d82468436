package command

import (
	"flag"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves a command's flags before its arguments, so that
// `wallproof verify DIR --key K` and `wallproof verify --key K DIR` mean the
// same: the flag package under urfave/cli stops at the first argument. What
// follows "--" stays as it is.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) < 2 {
		return args
	}
	cmd, at := lookup(app.Commands, args)
	if cmd == nil || cmd.SkipFlagParsing {
		return args
	}
	takesValue := valueFlags(cmd)
	var flags, rest []string
	tail := args[at:]
	for i := 0; i < len(tail); i++ {
		arg := tail[i]
		if arg == "--" {
			rest = append(rest, tail[i:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if cmd.Name == "exec" { // the first argument starts the command to run
				rest = append(rest, tail[i:]...)
				break
			}
			rest = append(rest, arg)
			continue
		}
		flags = append(flags, arg)
		name := strings.TrimLeft(arg, "-")
		if !strings.Contains(name, "=") && takesValue[name] && i+1 < len(tail) {
			i++
			flags = append(flags, tail[i])
		}
	}
	out := append([]string{}, args[:at]...)
	return append(append(out, flags...), rest...)
}

// lookup finds the command that args name and the index of what follows it.
func lookup(commands []*cli.Command, args []string) (*cli.Command, int) {
	var found *cli.Command
	at := 1
	for at < len(args) {
		var next *cli.Command
		for _, c := range commands {
			if c.HasName(args[at]) {
				next = c
			}
		}
		if next == nil {
			break
		}
		found, commands = next, next.Subcommands
		at++
	}
	return found, at
}

// valueFlags lists the flag names of cmd that take a value.
func valueFlags(cmd *cli.Command) map[string]bool {
	out := map[string]bool{}
	for _, f := range cmd.Flags {
		set := flag.NewFlagSet("", flag.ContinueOnError)
		if f.Apply(set) != nil {
			continue
		}
		set.VisitAll(func(fl *flag.Flag) {
			b, ok := fl.Value.(interface{ IsBoolFlag() bool })
			out[fl.Name] = !ok || !b.IsBoolFlag()
		})
	}
	return out
}
