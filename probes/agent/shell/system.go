package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// statusError ends a program with a status and without a message.
func statusError(status int) error { return interp.ExitStatus(uint8(status)) }

// env prints the environment, or runs a command in a changed one: -i, -u NAME,
// NAME=value.
func env(ctx context.Context, c *call) error {
	list := c.environ()
	args := c.args
	for len(args) > 0 {
		switch {
		case args[0] == "-i":
			list, args = nil, args[1:]
			continue
		case args[0] == "-u" && len(args) > 1:
			list, args = without(list, args[1]), args[2:]
			continue
		case strings.Contains(args[0], "="):
			name, _, _ := strings.Cut(args[0], "=")
			list, args = append(without(list, name), args[0]), args[1:]
			continue
		}
		break
	}
	if len(args) == 0 {
		for _, kv := range list {
			fmt.Fprintln(c.out, kv)
		}
		return nil
	}
	return c.script(ctx, list, Quote(args))
}

func without(list []string, name string) []string {
	var out []string
	for _, kv := range list {
		if !strings.HasPrefix(kv, name+"=") {
			out = append(out, kv)
		}
	}
	return out
}

// Quote makes a command line of words.
func Quote(words []string) string {
	var out []string
	for _, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil { // a NUL, which no argument can hold
			continue
		}
		out = append(out, q)
	}
	return strings.Join(out, " ")
}

// script runs a script in a shell of its own.
func (c *call) script(ctx context.Context, env []string, script string, params ...string) error {
	status, err := c.sub(env).Run(ctx, script, params...)
	if err != nil {
		return err
	}
	if status != 0 {
		return statusError(status)
	}
	return nil
}

func printenv(_ context.Context, c *call) error {
	if len(c.args) == 0 {
		for _, kv := range c.environ() {
			fmt.Fprintln(c.out, kv)
		}
		return nil
	}
	for _, name := range c.args {
		v := c.env.Get(name)
		if !v.IsSet() {
			return statusError(1)
		}
		fmt.Fprintln(c.out, v.String())
	}
	return nil
}

// sh is sh [-eux] -c SCRIPT [NAME ARG…], sh FILE [ARG…], or a script on standard
// input. Other options change nothing here.
func sh(ctx context.Context, c *call) error {
	args := c.args
	set, inline := "", false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		if !strings.HasPrefix(args[0], "--") {
			inline = inline || strings.Contains(args[0], "c")
			for _, letter := range args[0][1:] {
				if strings.ContainsRune("eux", letter) {
					set += "set -" + string(letter) + "\n"
				}
			}
		}
		args = args[1:]
	}
	switch {
	case inline && len(args) == 0:
		return errUsage("a script is missing after -c")
	case inline:
		return c.script(ctx, c.environ(), set+args[0], args[min(2, len(args)):]...)
	case len(args) > 0 && args[0] != "-":
		b, err := os.ReadFile(c.path(args[0]))
		if err != nil {
			return err
		}
		return c.script(ctx, c.environ(), set+string(b), args[1:]...)
	}
	b, err := io.ReadAll(io.LimitReader(c.in, maxRead))
	if err != nil {
		return err
	}
	return c.script(ctx, c.environ(), set+string(b))
}

// maxSleep bounds one sleep; the call's context bounds it as well.
const maxSleep = 24 * time.Hour

func sleep(ctx context.Context, c *call) error {
	if len(c.args) != 1 {
		return errUsage("want a number of seconds")
	}
	if c.args[0] == "infinity" {
		return pause(ctx, maxSleep)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(c.args[0], "s"), 64)
	if err != nil || seconds < 0 || seconds > maxSleep.Seconds() {
		return errUsage("not a number of seconds: " + c.args[0])
	}
	return pause(ctx, time.Duration(seconds*float64(time.Second)))
}

func date(_ context.Context, c *call) error {
	_, err := fmt.Fprintln(c.out, time.Now().UTC().Format(time.UnixDate))
	return err
}

func id(_ context.Context, c *call) error {
	if letters, _ := flags(c.args); strings.Contains(letters, "u") {
		_, err := fmt.Fprintln(c.out, os.Getuid())
		return err
	}
	_, err := fmt.Fprintf(c.out, "uid=%d gid=%d\n", os.Getuid(), os.Getgid())
	return err
}

func whoami(_ context.Context, c *call) error {
	name := strconv.Itoa(os.Getuid())
	if name == "0" {
		name = "root"
	}
	_, err := fmt.Fprintln(c.out, name)
	return err
}

func hostname(_ context.Context, c *call) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, name)
	return err
}

func uname(_ context.Context, c *call) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	text := unix.ByteSliceToString(u.Sysname[:])
	if letters, _ := flags(c.args); strings.ContainsAny(letters, "ar") {
		text += " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	_, err := fmt.Fprintln(c.out, text)
	return err
}

// crontab takes lines of five times and a command from standard input or a file,
// and hands the commands to whoever runs things later.
func crontab(_ context.Context, c *call) error {
	_, operands := flags(c.args)
	return c.inputs(operands, func(_ string, r io.Reader) error {
		lines, err := readLines(r)
		for _, line := range lines {
			fields := strings.Fields(line)
			if len(fields) > 5 && fields[0][0] != '#' && c.shell.Later != nil {
				c.shell.Later(afterFields(line, 5))
			}
		}
		return err
	})
}

// afterFields returns a line without its first n words.
func afterFields(line string, n int) string {
	for range n {
		line = strings.TrimLeft(line, " \t")
		i := strings.IndexAny(line, " \t")
		if i < 0 {
			return ""
		}
		line = line[i:]
	}
	return strings.TrimSpace(line)
}
