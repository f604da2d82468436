// Package shell is a POSIX shell with the few programs that an agent needs built
// in, so that no program of an image does: mvdan.cc/sh interprets, this package
// adds ls, cat, curl, git and their like.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// Shell runs scripts.
type Shell struct {
	Net      *Net     // how the network is reached
	Env      []string // "NAME=value"
	Dir      string   // working folder
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	External bool // also run programs of the file system

	// Later collects commands that a script wants run at another time (crontab).
	Later func(command string)
}

// call is one use of a built-in program.
type call struct {
	shell *Shell
	args  []string // without the name
	env   expand.Environ
	dir   string
	in    io.Reader
	out   io.Writer
	err   io.Writer
}

// errUsage is a wrong use of a built-in program; it ends with status 2.
type errUsage string

func (e errUsage) Error() string { return string(e) }

// program is a built-in program. An error is printed and ends it with status 1.
type program func(ctx context.Context, c *call) error

// programs are the built-in ones by name. Shell builtins such as echo, cd, test
// and read are the interpreter's.
func programs() map[string]program {
	return map[string]program{
		"ls": ls, "cat": cat, "env": env, "printenv": printenv, "head": head, "tail": tail, "wc": wc, "grep": grep, "base64": base64Program,
		"mkdir": mkdir, "rm": rm, "cp": cp, "mv": mv, "touch": touch, "tee": tee, "sleep": sleep, "date": date, "id": id, "whoami": whoami,
		"hostname": hostname, "uname": uname, "find": find,
		"sh": sh, "bash": sh, "ash": sh,
		"curl": curl, "wget": wget, "nslookup": nslookup, "dig": nslookup, "host": nslookup, "git": git, "markdown": markdown, "crontab": crontab,
	}
}

// Programs returns the names of all built-in programs.
func Programs() []string {
	var out []string
	for name := range programs() {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Run runs a script with positional parameters and returns its exit status. The
// error is for a script that does not parse or a run that was cut off.
func (s *Shell) Run(ctx context.Context, script string, params ...string) (int, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return 2, fmt.Errorf("parse the script: %w", err)
	}
	handler := func(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
		return func(ctx context.Context, args []string) error { return s.exec(ctx, args, next) }
	}
	r, err := interp.New(
		interp.Env(expand.ListEnviron(s.Env...)), interp.Dir(s.Dir), interp.StdIO(s.Stdin, s.Stdout, s.Stderr),
		interp.ExecHandlers(handler), interp.Params(append([]string{"--"}, params...)...))
	if err != nil {
		return 1, fmt.Errorf("start the shell: %w", err)
	}
	err = r.Run(ctx, file)
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &status):
		return int(status), ctx.Err()
	}
	return 1, err
}

// Program runs one built-in program outside of any script. ok is false when
// there is none of that name.
func (s *Shell) Program(ctx context.Context, name string, args []string) (status int, ok bool) {
	p, ok := programs()[name]
	if !ok {
		return 0, false
	}
	return finish(p(ctx, &call{shell: s, args: args, env: expand.ListEnviron(s.Env...), dir: s.Dir, in: s.Stdin, out: s.Stdout, err: s.Stderr}), name, s.Stderr), true
}

func (s *Shell) exec(ctx context.Context, args []string, next interp.ExecHandlerFunc) error {
	hc := interp.HandlerCtx(ctx)
	p, ok := programs()[baseName(args[0])]
	if !ok {
		if s.External {
			return next(ctx, args)
		}
		fmt.Fprintf(hc.Stderr, "%s: not found\n", args[0])
		return interp.ExitStatus(127)
	}
	c := &call{shell: s, args: args[1:], env: hc.Env, dir: hc.Dir, in: hc.Stdin, out: hc.Stdout, err: hc.Stderr}
	if status := finish(p(ctx, c), args[0], hc.Stderr); status != 0 {
		return interp.ExitStatus(uint8(status))
	}
	return nil
}

// finish prints a program's error and turns it into a status.
func finish(err error, name string, out io.Writer) int {
	var status interp.ExitStatus
	var usage errUsage
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintf(out, "%s: %v\n", name, err)
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// variable returns a variable of the call's environment.
func (c *call) variable(name string) string { return c.env.Get(name).String() }

// environ returns the exported variables, "NAME=value".
func (c *call) environ() []string {
	var out []string
	for name, v := range c.env.Each {
		if v.IsSet() && v.Exported {
			out = append(out, name+"="+v.String())
		}
	}
	slices.Sort(out)
	return out
}

// sub returns a shell for a script that a call starts.
func (c *call) sub(env []string) *Shell {
	s := *c.shell
	s.Env, s.Dir, s.Stdin, s.Stdout, s.Stderr = env, c.dir, c.in, c.out, c.err
	return &s
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// pause waits, or less when the context ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
