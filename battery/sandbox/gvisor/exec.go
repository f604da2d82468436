package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
)

const (
	// runtimeFailed is the runtime's own exit code. A command inside may use it
	// too; the runtime's log tells the two apart.
	runtimeFailed = 128
	// killGrace bounds each step of ending a command that was cut off.
	killGrace = 5 * time.Second
	// outputGrace is how long output may still come after a command has ended,
	// when something that it left behind holds its streams open.
	outputGrace = 2 * time.Second
	maxPidBytes = 16
)

// Descriptors that an exec of the runtime inherits, beside its streams. They
// are pipes, so that neither the command nor its environment, which may hold a
// secret, is ever in an argv or on a disk.
const (
	processFD = "/proc/self/fd/3" // the OCI process as JSON, to the runtime
	pidFD     = "/proc/self/fd/4" // the command's process id inside, from it
	logFD     = "/proc/self/fd/5" // the runtime's own errors, from it
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

// exec runs c; program, if not nil, is the executable instead of c.Argv[0].
func (b *box) exec(ctx context.Context, c sandbox.Command, program *os.File) (int, error) {
	if err := c.Validate(); err != nil {
		return -1, err
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("command ran longer than %s: %w", c.Timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	if b.ending.Load() {
		return -1, sandbox.ErrEnded
	}
	x, err := b.newExecution(c, program)
	if err != nil {
		return -1, err
	}
	defer x.close()
	return x.run(ctx)
}

// execution is one exec of the runtime.
type execution struct {
	box     *box
	cmd     *exec.Cmd
	streams streams
	process []byte      // JSON for processFD
	ours    [3]*os.File // our ends of the pipes: process, pid, log
	theirs  [3]*os.File
	program *os.File

	pid chan string // the command's process id inside; closed without one if it never started
	log chan []byte // the runtime's errors, once it has ended
}

func (b *box) newExecution(c sandbox.Command, program *os.File) (*execution, error) {
	process, err := json.Marshal(process(b.spec, c))
	if err != nil {
		return nil, err
	}
	x := &execution{box: b, process: process, program: program, pid: make(chan string, 1), log: make(chan []byte, 1)}
	if err := x.openPipes(); err != nil {
		x.close()
		return nil, err
	}
	if c.TTY {
		x.streams, err = newTerminal(c)
	} else {
		x.streams, err = newPipes(c)
	}
	if err != nil {
		x.close()
		return nil, err
	}
	args := []string{b.dir.rootArg(), "--log=" + logFD, "--log-format=json", "exec", "--process=" + processFD, "--internal-pid-file=" + pidFD}
	x.cmd = b.host.runtime.command(args...)
	x.cmd.ExtraFiles = x.theirs[:]
	if program != nil {
		x.cmd.Args = append(x.cmd.Args, "--exec-fd="+programFD)
		x.cmd.ExtraFiles = append(x.cmd.ExtraFiles, program)
	}
	x.cmd.Args = append(x.cmd.Args, b.spec.ID)
	x.streams.attach(x.cmd)
	return x, nil
}

func (x *execution) openPipes() error {
	for i := range x.ours {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		x.ours[i], x.theirs[i] = r, w
	}
	x.ours[0], x.theirs[0] = x.theirs[0], x.ours[0] // the process goes the other way
	return nil
}

func (x *execution) close() {
	for i := range x.ours {
		if x.ours[i] != nil {
			x.ours[i].Close()
			x.theirs[i].Close()
		}
	}
	if x.streams != nil {
		x.streams.close()
	}
}

func (x *execution) run(ctx context.Context) (int, error) {
	if err := x.cmd.Start(); err != nil {
		return -1, fmt.Errorf("start %s: %w", x.box.host.runtime, err)
	}
	for _, f := range x.theirs {
		f.Close()
	}
	go func() {
		x.ours[0].Write(x.process) // when it fails the runtime says so
		x.ours[0].Close()
	}()
	go func() {
		defer close(x.pid)
		b := make([]byte, maxPidBytes) // it comes in one write; the end only with the runtime's
		if n, _ := x.ours[1].Read(b); n > 0 {
			x.pid <- string(b[:n])
		}
	}()
	go func() {
		b, _ := io.ReadAll(io.LimitReader(x.ours[2], maxRuntimeLog))
		x.log <- b
	}()
	x.streams.start()
	ended := make(chan error, 1)
	go func() { ended <- x.cmd.Wait() }()

	select {
	case <-ended:
		x.streams.finish(outputGrace)
		return x.result()
	case <-ctx.Done():
		x.kill(ended)
		x.streams.finish(outputGrace)
		return -1, context.Cause(ctx)
	}
}

// result tells the command's exit from the runtime's failure. When the sandbox
// is being ended the runtime may report an exit of 0 that never was.
func (x *execution) result() (int, error) {
	if x.box.ending.Load() {
		return -1, sandbox.ErrEnded
	}
	exit := x.cmd.ProcessState.ExitCode()
	if exit != runtimeFailed && exit >= 0 {
		return exit, nil
	}
	select {
	case b := <-x.log:
		if err := runtimeError(b); err != nil {
			return -1, x.box.explain(err)
		}
	case <-time.After(killGrace):
		return -1, errors.New("the runtime's log did not end")
	}
	if exit < 0 {
		return -1, x.box.explain(fmt.Errorf("the runtime was killed: %s", x.cmd.ProcessState))
	}
	return exit, nil
}

// explain adds to a failure of the runtime that the sandbox is gone, if it is.
func (b *box) explain(err error) error {
	if b.running() {
		return err
	}
	return fmt.Errorf("%w by itself, perhaps over its limit of %d bytes of memory: %w", sandbox.ErrEnded, b.spec.Limits.MemoryBytes, err)
}

// kill ends the command's process group inside, and then the runtime's exec,
// which only relays. Killing just the latter would leave the command running.
func (x *execution) kill(ended <-chan error) {
	select {
	case pid, ok := <-x.pid:
		if n, err := strconv.Atoi(pid); ok && err == nil && n > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), killGrace)
			defer cancel()
			b := x.box
			// A failure means that the command has ended, or the sandbox has.
			_ = b.host.runtime.run(ctx, os.DevNull, b.dir.rootArg(), "kill", "--pgid="+pid, b.spec.ID, "KILL")
		}
	case <-time.After(killGrace):
	}
	select {
	case <-ended:
	case <-time.After(killGrace):
		x.cmd.Process.Kill()
		<-ended
	}
}
