package procs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Proc is a running child.
type Proc struct {
	cmd    *exec.Cmd
	grace  time.Duration
	ready  chan struct{} // closed when readyMsg is set
	done   chan struct{} // closed when the process has ended and its output is read
	stderr headTail

	mu       sync.Mutex
	readyMsg json.RawMessage
	fault    error // what the process did wrong, if anything
	waitErr  error // set before done is closed
}

// Start starts the process and returns once it is ready. ctx and
// Spec.ReadyTimeout bound the start only: afterwards the process lives until
// Stop, its own end, or the end of this process. On an error nothing is left
// running; the error holds what the process wrote to standard error.
func Start(ctx context.Context, spec Spec) (*Proc, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	config, err := json.Marshal(spec.Config)
	if err != nil {
		return nil, fmt.Errorf("start %s: encode configuration: %w", spec.Argv[0], err)
	}
	if len(config) > MaxConfig {
		return nil, fmt.Errorf("start %s: configuration of %d bytes is over the limit of %d", spec.Argv[0], len(config), MaxConfig)
	}
	p, err := spawn(&spec, config)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	if err := p.awaitReady(ctx, orDefault(spec.ReadyTimeout, defaultReadyTimeout)); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	return p, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// command lays out the process; the descriptors are those of an ordinary exec.
func command(spec *Spec) *exec.Cmd {
	names := make([]string, len(spec.Files))
	extra := make([]*os.File, len(spec.Files))
	for i, f := range spec.Files {
		names[i], extra[i] = f.Name, f.File
	}
	dir := spec.Dir
	if dir == "" {
		dir = "/"
	}
	env := append([]string{}, spec.Env...)
	return &exec.Cmd{
		Path:        spec.Path,
		Args:        spec.Argv,
		Env:         append(env, fdNamesVar+"="+strings.Join(names, ":")),
		Dir:         dir,
		ExtraFiles:  extra,
		SysProcAttr: attributes(spec),
	}
}

// ownNamespaces are those of Spec.Namespaces.
const ownNamespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

func attributes(spec *Spec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: spec.UID, Gid: spec.GID},
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if spec.Namespaces {
		a.Cloneflags = ownNamespaces
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(spec.UID), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(spec.GID), Size: 1}}
		a.GidMappingsEnableSetgroups = true // to have none
		a.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	}
	return a
}

// spawn starts the process from a thread of its own and gives it its
// configuration. The thread stays until the process has ended, because the
// parent-death signal is sent when the thread that forked ends.
func spawn(spec *Spec, config []byte) (*Proc, error) {
	p := &Proc{
		cmd:   command(spec),
		grace: orDefault(spec.StopGrace, defaultStopGrace),
		ready: make(chan struct{}),
		done:  make(chan struct{}),
	}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = childOut, &p.stderr, lingerAfterExit
	started := make(chan error, 1)
	readDone := make(chan struct{})
	go func() {
		_ = onThread(func() error {
			err := p.startHere(spec)
			_ = childOut.Close()
			started <- err
			if err == nil {
				p.waitHere(out, readDone)
			}
			return nil
		})
	}()
	if err := <-started; err != nil {
		_ = out.Close()
		return nil, err
	}
	go writeConfig(stdin, config)
	go func() {
		defer close(readDone)
		p.read(out, spec.OnEvent)
	}()
	return p, nil
}

// waitHere waits for the end of the process and of its output. A descendant that
// still holds the output open is not waited for.
func (p *Proc) waitHere(out *os.File, readDone <-chan struct{}) {
	err := p.cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	_ = out.SetReadDeadline(time.Now().Add(lingerAfterExit))
	<-readDone
	_ = out.Close()
	p.finish(err)
}

// startHere forks from the calling thread, which is thrown away afterwards.
func (p *Proc) startHere(spec *Spec) error {
	if err := enterNetNS(spec.NetNS); err != nil {
		return err
	}
	if err := shedPrivileges(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if err := forbidCore(p.cmd.Process.Pid, spec.UID, spec.GID); err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return err
	}
	return nil
}

func writeConfig(w io.WriteCloser, config []byte) {
	// A failed write means that the process has ended or closed its input; its
	// end, or its silence, is reported by awaitReady.
	_, _ = w.Write(config)
	_ = w.Close()
}

func (p *Proc) awaitReady(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var why error
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		select { // it may have said ready and ended at once; that still counts as started
		case <-p.ready:
			return nil
		default:
		}
		return p.describe(fmt.Errorf("%w: %w", ErrNotReady, p.Wait()))
	case <-ctx.Done():
		why = ctx.Err()
	case <-timer.C:
		why = fmt.Errorf("nothing after %s", timeout)
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return p.describe(fmt.Errorf("%w: %w", ErrNotReady, why))
}

// describe adds the process's standard error, which says more than a status.
func (p *Proc) describe(err error) error {
	if s := p.Stderr(); s != "" {
		return fmt.Errorf("%w; its standard error: %s", err, s)
	}
	return err
}

// finish records how the process ended.
func (p *Proc) finish(err error) {
	p.mu.Lock()
	switch {
	case p.fault != nil:
		p.waitErr = p.fault
	case err != nil:
		p.waitErr = err
	case p.readyMsg == nil:
		p.waitErr = errors.New("ended without a word")
	}
	p.mu.Unlock()
	close(p.done)
}

// Pid is the process's id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Ready is the value that the process sent when it was ready.
func (p *Proc) Ready() json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readyMsg
}

// Done is closed when the process has ended and all its events are delivered.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process. nil means exit status 0; an
// *exec.ExitError another status or a signal; ErrProtocol a fault.
func (p *Proc) Wait() error {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waitErr
}

// Stderr is what the process wrote to standard error so far, bounded: the
// beginning and the end.
func (p *Proc) Stderr() string { return p.stderr.String() }

// Signal sends a signal; os.ErrProcessDone when the process has ended.
func (p *Proc) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop asks the process to end (SIGTERM), waits for Spec.StopGrace or until ctx
// is done, then kills it, and returns once it has ended. nil means that it ended
// by itself with status 0 or by that SIGTERM; ErrKilled that it had to be
// killed; anything else is as in Wait. It is idempotent.
func (p *Proc) Stop(ctx context.Context) error {
	_ = p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.stopped()
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return p.describe(fmt.Errorf("stop %s: %w", p.cmd.Args[0], ErrKilled))
}

func (p *Proc) stopped() error {
	err := p.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		ws, ok := exit.Sys().(syscall.WaitStatus)
		if ok && ws.Signaled() && ws.Signal() == unix.SIGTERM {
			return nil
		}
	}
	return err
}
