package runc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
	"github.com/wallproof/wallproof/battery/sandbox/internal/invoke"
)

// runtimeFailed is the runtime's own exit code. A command inside may use it too;
// the runtime's log tells the two apart.
const runtimeFailed = 255

// Exec implements sandbox.Sandbox.
//
// Stdin is copied as long as the command runs; when Exec returns, a Read of
// Stdin may still be waiting. Output that comes later than two seconds after
// the command's end, from a process that it left behind, is lost.
func (b *box) Exec(ctx context.Context, c sandbox.Command) (int, error) {
	exit, err := b.exec(ctx, c)
	if err != nil {
		return exit, fmt.Errorf("exec in %s: %w", b.spec.ID, err)
	}
	return exit, nil
}

func (b *box) exec(ctx context.Context, c sandbox.Command) (int, error) {
	if err := c.Validate(); err != nil {
		return -1, err
	}
	ctx, cancel := invoke.Deadline(ctx, c)
	defer cancel()
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	if b.ending.Load() {
		return -1, sandbox.ErrEnded
	}
	pidFile := filepath.Join(b.dir.Bundle(), "exec-"+strconv.FormatUint(b.execs.Add(1), 10)+".pid")
	defer os.Remove(pidFile)
	// Only the log at this level tells of a command's end while something that it
	// left behind holds its streams open, which the runtime waits for.
	args := []string{b.dir.RootArg(), "--debug", "--log=" + invoke.LogFile, "--log-format=json",
		"exec", "--process=" + invoke.ProcessFile, "--pid-file=" + pidFile}
	leaked := bundle.LeakedFiles(b.spec)
	if len(leaked) > 0 {
		args = append(args, fmt.Sprintf("--preserve-fds=%d", invoke.FirstExtra-3+len(leaked)))
	}
	cmd := b.host.runtime.Command(append(args, b.spec.ID)...)
	x := invoke.Invocation{
		Runtime: cmd, Start: b.start, Process: b.profile.process(b.spec, c, b.host), Command: c, OwnTerminal: true, Extra: leaked,
		Exited: func(line []byte) (int, bool) { return exited(line, pidFile) },
		Kill:   func(ended <-chan struct{}) { killChildren(func() int { return cmd.Process.Pid }, ended) },
	}
	r, err := x.Run(ctx)
	switch {
	case err != nil:
		return -1, err
	case b.ending.Load():
		return -1, sandbox.ErrEnded
	case r.Exit < 0:
		return -1, b.explain(errors.Join(fmt.Errorf("the runtime was killed: %s", r.State), r.Log))
	case r.Exit == runtimeFailed && r.Log != nil:
		return -1, b.explain(r.Log)
	}
	return r.Exit, nil
}

// exited reads the line in which the runtime's log says that a process has
// ended. It ends processes of its own as well; the command's is the one that
// pidFile names, which is there before such a line is written.
func exited(line []byte, pidFile string) (code int, yes bool) {
	var entry struct {
		Msg    string `json:"msg"`
		PID    int    `json:"pid"`
		Status int    `json:"status"`
	}
	if json.Unmarshal(line, &entry) != nil || entry.Msg != "process exited" {
		return 0, false
	}
	pid, err := readPid(pidFile)
	return entry.Status, err == nil && pid == entry.PID
}

// killChildren kills the process groups of a runtime's children, which are the
// command or about to become it, until the runtime itself ends.
func killChildren(runtime func() int, ended <-chan struct{}) {
	deadline := time.NewTimer(invoke.Grace)
	defer deadline.Stop()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		killGroups(runtime())
		again := time.NewTimer(wait)
		select {
		case <-ended:
			again.Stop()
			return
		case <-deadline.C:
			again.Stop()
			return
		case <-again.C:
		}
	}
}

// killGroups kills the children of a process, each with its process group where
// it leads one. The first of the runtime's are of the runtime's group.
func killGroups(parent int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || bundle.Parent(pid) != parent {
			continue
		}
		target := pid
		if group, err := unix.Getpgid(pid); err == nil && group == pid {
			target = -pid
		}
		// A failure means that it has ended.
		_ = unix.Kill(target, unix.SIGKILL)
	}
}
