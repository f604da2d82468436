//go:build unix

package front

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/internal/version"
)

// elsewhere are arguments that ask for help or completion: it is about all commands
// and flags, and these are known elsewhere.
var elsewhere = []string{"help", "h", "generate-bash-completion"}

// Main runs one command line, here or by handing it over, and ends the process.
func Main(args []string) {
	app := command.NewApp(Program, "", auditor.Commands(Program, nil))
	if !candidate(app, args) {
		give(args)
	}
	for _, c := range app.Commands {
		action := c.Action
		c.Action = func(x *cli.Context) error {
			if slices.ContainsFunc(x.Args().Slice(), auditor.IsReference) { // a registry is asked
				give(args)
			}
			return action(x)
		}
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { give(args); return err }
	}
	command.Short()
	command.Main(app, args)
}

// candidate tells whether a command line names a command that is here, and asks for
// no help.
func candidate(app *cli.App, args []string) bool {
	if len(args) < 2 || args[1] == "completion" || !slices.ContainsFunc(app.Commands, func(c *cli.Command) bool { return c.Name == args[1] }) {
		return false
	}
	return !slices.ContainsFunc(args[2:], func(a string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		return slices.Contains(elsewhere, name)
	})
}

// give hands a command line over and does not return.
func give(args []string) {
	term.Error(os.Stderr, handOver(args))
	os.Exit(command.Usage)
}

// handOver puts the program with all commands in this one's place. It returns only
// where that fails.
func handOver(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), Boundary)
	if os.Getenv(mark) != "" {
		return fmt.Errorf("%s is this program again, under another name: install the one that `make build` makes under that name", self)
	}
	err = syscall.Exec(path, args, append(os.Environ(), mark+"="+version.String()))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("this needs %s, which belongs beside %s and is not there: install both, as `make build` does; %s alone verifies what is in files", path, self, Program)
	}
	return fmt.Errorf("start %s: %w", path, err)
}
