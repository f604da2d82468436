package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
	"github.com/wallproof/wallproof/battery/sandbox/internal/invoke"
)

const (
	// runtimeFailed is the runtime's own exit code. A command inside may use it
	// too; the runtime's log tells the two apart.
	runtimeFailed = 128
	maxPidBytes   = 16
)

// Further descriptors that an exec of the runtime inherits.
const (
	pidFile   = "/proc/self/fd/5" // the command's process id inside, from it
	programFD = "6"               // a program of the host to run instead of a path
)

// Exec implements sandbox.Sandbox.
//
// Stdin is copied as long as the command runs; when Exec returns, a Read of
// Stdin may still be waiting. Output that comes later than two seconds after
// the command's end, from a process that it left behind, is lost.
func (b *box) Exec(ctx context.Context, c sandbox.Command) (int, error) {
	exit, err := b.exec(ctx, c, nil)
	if err != nil {
		return exit, fmt.Errorf("exec in %s: %w", b.spec.ID, err)
	}
	return exit, nil
}

// exec runs c; program, if not nil, is the executable instead of c.Argv[0]. It
// is closed.
func (b *box) exec(ctx context.Context, c sandbox.Command, program *os.File) (int, error) {
	if program != nil {
		defer program.Close()
	}
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
	ours, theirs, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	defer ours.Close()
	args := append([]string{b.dir.RootArg(), "--log=" + invoke.LogFile, "--log-format=json"}, bundle.BrokenFlags(b.spec)...)
	args = append(args, "exec", "--process="+invoke.ProcessFile, "--internal-pid-file="+pidFile)
	extra := []*os.File{theirs}
	if program != nil {
		args, extra = append(args, "--exec-fd="+programFD), append(extra, program)
	}
	for _, f := range bundle.LeakedFiles(b.spec) {
		args = append(args, fmt.Sprintf("--pass-fd=%d:%d", invoke.FirstExtra+len(extra), bundle.LeakedFD))
		extra = append(extra, f)
	}
	pid := make(chan string, 1)
	x := invoke.Invocation{
		Runtime: b.host.runtime.Command(append(args, b.spec.ID)...), Process: process(b.spec, c), Command: c, Extra: extra,
		Kill: func(<-chan struct{}) { b.kill(pid) },
	}
	go readPid(ours, pid)
	r, err := x.Run(ctx)
	if err != nil {
		return -1, err
	}
	return b.result(r)
}

// readPid sends the command's process id inside, and closes the channel without
// one if the command never started. It comes in one write; the end of the pipe
// only with the runtime's.
func readPid(r *os.File, pid chan<- string) {
	defer close(pid)
	b := make([]byte, maxPidBytes)
	if n, _ := r.Read(b); n > 0 {
		pid <- string(b[:n])
	}
}

// result tells the command's exit from the runtime's failure. When the sandbox
// is being ended the runtime may report an exit of 0 that never was.
func (b *box) result(r invoke.Result) (int, error) {
	switch {
	case b.ending.Load():
		return -1, sandbox.ErrEnded
	case r.Exit < 0:
		return -1, b.explain(errors.Join(fmt.Errorf("the runtime was killed: %s", r.State), r.Log))
	case r.Exit == runtimeFailed && r.Log != nil:
		return -1, b.explain(r.Log)
	}
	return r.Exit, nil
}

// explain adds to a failure of the runtime that the sandbox is gone, if it is.
func (b *box) explain(err error) error {
	if b.running() {
		return err
	}
	return fmt.Errorf("%w by itself, perhaps over its limit of %d bytes of memory: %w", sandbox.ErrEnded, b.spec.Limits.MemoryBytes, err)
}

// kill ends the command's process group inside. Killing just the runtime's exec,
// which only relays, would leave the command running.
func (b *box) kill(pid <-chan string) {
	timer := time.NewTimer(invoke.Grace)
	defer timer.Stop()
	select {
	case p, ok := <-pid:
		if n, err := strconv.Atoi(p); ok && err == nil && n > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), invoke.Grace)
			defer cancel()
			// A failure means that the command has ended, or the sandbox has.
			_ = b.host.runtime.Run(ctx, bundle.RunOptions{Log: os.DevNull}, b.dir.RootArg(), "kill", "--pgid="+p, b.spec.ID, "KILL")
		}
	case <-timer.C:
	}
}
