// Command wallproof-agent is the obedient agent that Wallproof runs inside a
// sandbox: it follows every instruction that it reads, with a shell, files, fetch
// and git of its own. It is static and needs no program of the image.
//
//	wallproof-agent run    carry out a plan (one line of JSON on standard input):
//	                       authenticated results on standard output, the transcript
//	                       on standard error, one JSON object a line
//
// Under the name of one of its programs (sh, ls, cat, env, curl, git, …) it is
// that program, so that an image can consist of it alone.
//
// Exit codes: those of the program; 1 for usage or input.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/agent"
	"github.com/wallproof/wallproof/probes/agent/shell"
	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	name := filepath.Base(os.Args[0])
	switch {
	case isProgram(name):
		os.Exit(program(ctx, name, os.Args[1:]))
	case len(os.Args) == 2 && os.Args[1] == "run":
		if err := run(ctx, os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "wallproof-agent:", err)
			os.Exit(1)
		}
	case len(os.Args) > 2 && os.Args[1] == "exec" && isProgram(os.Args[2]):
		os.Exit(program(ctx, os.Args[2], os.Args[3:]))
	default:
		fmt.Fprintln(os.Stderr, "usage: wallproof-agent run | wallproof-agent exec PROGRAM [ARG…], or under the name of one of: "+
			strings.Join(names(), " "))
		os.Exit(1)
	}
}

// run carries out a plan.
func run(ctx context.Context, in io.Reader, out, transcript io.Writer) error {
	// As for the probe: the key is nobody else's business.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	plan, err := probes.ReadPlan(in)
	if err != nil {
		return err
	}
	w, err := probes.NewWriter(out, plan.Key)
	if err != nil {
		return err
	}
	plan.Key = ""
	r := probes.Runner{Attempts: agent.New(os.Environ(), transcript).Attempts()}
	return r.Run(ctx, plan, w)
}

// simple are programs that the interpreter has as builtins and that exist under a
// name of their own as well.
var simple = []string{"echo", "true", "false", "pwd", "test", "printf"}

func names() []string { return append(shell.Programs(), simple...) }

func isProgram(name string) bool { return slices.Contains(names(), strings.TrimPrefix(name, "-")) }

// program is the program of that name. Programs of the file system may be run
// from it, as from any shell.
func program(ctx context.Context, name string, args []string) int {
	name = strings.TrimPrefix(name, "-") // a login shell
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	sh := &shell.Shell{Net: &shell.Net{}, Env: os.Environ(), Dir: dir, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, External: true}
	if status, ok := sh.Program(ctx, name, args); ok {
		return status
	}
	status, err := sh.Run(ctx, shell.Quote(append([]string{name}, args...)))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return status
}
