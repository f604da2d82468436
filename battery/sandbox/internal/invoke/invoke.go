// Package invoke runs one command in a sandbox through an OCI runtime's exec:
// its streams, its time, and the pipes by which the runtime learns what to run
// and says what went wrong.
//
// Neither the command nor its environment, which may hold a secret, is ever in
// an argv or on a disk: the runtime reads the OCI process from a pipe.
package invoke

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// What the runtime's exec inherits, as its arguments name it.
const (
	ProcessFile = "/proc/self/fd/3" // the OCI process as JSON, for it to read
	LogFile     = "/proc/self/fd/4" // its log, for it to write
	FirstExtra  = 5                 // the descriptor of the first of Invocation.Extra
)

const (
	// Grace bounds each step of ending a command that was cut off.
	Grace = 5 * time.Second
	// outputGrace is how long output may still come after a command has ended,
	// when something that it left behind holds its streams open.
	outputGrace = 2 * time.Second
	// maxLine bounds a line of the runtime's log.
	maxLine = 16 << 10
)

// Invocation is one exec of a runtime.
type Invocation struct {
	// Runtime is the exec, with arguments that name ProcessFile and LogFile.
	Runtime *exec.Cmd
	// Start starts it; nil means (*exec.Cmd).Start.
	Start func(*exec.Cmd) error
	// Process is what it is to run, Command where its streams come from and go.
	Process *specs.Process
	Command sandbox.Command
	// OwnTerminal: with Command.TTY the runtime makes a terminal inside, which
	// interprets what is typed, and passes on what it gets; otherwise the terminal
	// that it is given is the one that the command has.
	OwnTerminal bool
	// Extra are further files to inherit. Run closes them.
	Extra []*os.File
	// Exited, if not nil, is asked with each line of the log whether it says that
	// the command has ended, and with which exit code. A runtime that itself waits
	// for all output would otherwise never end while something that the command
	// left behind holds its streams open.
	Exited func(line []byte) (code int, yes bool)
	// Kill ends the command and what belongs to it, so that the runtime ends too;
	// ended is closed when it has. It is called when ctx ends. A runtime that has
	// not ended Grace after Kill returns is killed.
	Kill func(ended <-chan struct{})

	streams streams
	pipes   [2]pipe // process, log
	log     log
}

// Result is how a runtime's exec ended.
type Result struct {
	Exit  int    // the runtime's exit code, negative if a signal ended it; or what Exited said
	State string // the same in words
	Log   error  // the runtime's own errors; nil when it has none to tell
}

type pipe struct{ ours, theirs *os.File }

func (p *pipe) close() {
	if p.ours != nil {
		p.ours.Close()
		p.theirs.Close()
	}
}

// Run runs the command. The error is ctx's cause if it was cut off, or says why
// the runtime could not be started.
//
// Stdin is copied as long as the command runs; when Run returns, a Read of Stdin
// may still be waiting. Output that comes later than two seconds after the
// command's end, from a process that it left behind, is lost.
func (x *Invocation) Run(ctx context.Context) (Result, error) {
	defer x.close()
	process, err := json.Marshal(x.Process)
	if err != nil {
		return Result{}, err
	}
	if err := x.open(); err != nil {
		return Result{}, err
	}
	x.Runtime.ExtraFiles = append([]*os.File{x.pipes[0].theirs, x.pipes[1].theirs}, x.Extra...)
	x.streams.attach(x.Runtime)
	if err := bundle.Program(x.Runtime.Path).Start(x.Runtime, x.Start); err != nil {
		return Result{}, err
	}
	for _, f := range x.Runtime.ExtraFiles {
		f.Close()
	}
	go func() {
		x.pipes[0].ours.Write(process) // when it fails the runtime says so
		x.pipes[0].ours.Close()
	}()
	x.log.start(x.pipes[1].ours, x.Exited)
	x.streams.start()
	return x.wait(ctx)
}

func (x *Invocation) open() (err error) {
	for i := range x.pipes {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		x.pipes[i] = pipe{ours: r, theirs: w}
	}
	x.pipes[0] = pipe{ours: x.pipes[0].theirs, theirs: x.pipes[0].ours} // it goes the other way
	if x.Command.TTY {
		x.streams, err = newTerminal(x.Command, x.OwnTerminal)
	} else {
		x.streams, err = newPipes(x.Command)
	}
	return err
}

func (x *Invocation) close() {
	for i := range x.pipes {
		x.pipes[i].close()
	}
	if x.streams != nil {
		x.streams.close()
	}
	for _, f := range x.Extra {
		f.Close()
	}
}

func (x *Invocation) wait(ctx context.Context) (Result, error) {
	ended := make(chan struct{})
	go func() {
		x.Runtime.Wait() // the state tells
		close(ended)
	}()
	select {
	case <-ended:
	case <-x.log.exited:
		x.settle(ended, outputGrace)
	case <-ctx.Done():
		x.Kill(ended)
		x.settle(ended, Grace)
		x.streams.finish(outputGrace)
		return Result{}, context.Cause(ctx)
	}
	x.streams.finish(outputGrace)
	return x.result()
}

// settle gives the runtime some time to end, and then ends it.
func (x *Invocation) settle(ended <-chan struct{}, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		x.Runtime.Process.Kill()
		<-ended
	}
}

func (x *Invocation) result() (Result, error) {
	r := Result{Exit: x.Runtime.ProcessState.ExitCode(), State: x.Runtime.ProcessState.String()}
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case <-x.log.done:
	case <-timer.C:
		return Result{}, errors.New("the runtime's log did not end")
	}
	r.Log = bundle.RuntimeError(x.log.text)
	if r.Exit < 0 && x.log.hasExited() {
		r.Exit = x.log.code
	}
	return r, nil
}

// log reads a runtime's log to its end and keeps the first part.
type log struct {
	done   chan struct{} // closed at the end
	exited chan struct{} // closed when the command has
	text   []byte        // valid once done is closed
	code   int           // valid once exited is closed
	once   sync.Once
}

func (l *log) start(r io.Reader, exited func([]byte) (int, bool)) {
	l.done, l.exited = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(l.done)
		in := bufio.NewReaderSize(r, maxLine)
		for {
			line, err := in.ReadSlice('\n') // of a longer line, pieces
			l.text = append(l.text, line[:min(len(line), bundle.MaxLog-len(l.text))]...)
			if exited != nil && len(line) > 0 {
				if code, yes := exited(line); yes {
					l.once.Do(func() { l.code = code; close(l.exited) })
				}
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
}

func (l *log) hasExited() bool {
	select {
	case <-l.exited:
		return true
	default:
		return false
	}
}

// Deadline applies a command's timeout to a context. The caller calls cancel.
func Deadline(ctx context.Context, c sandbox.Command) (_ context.Context, cancel context.CancelFunc) {
	if c.Timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("command ran longer than %s: %w", c.Timeout, context.DeadlineExceeded))
}
