package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/internal/procs"
)

// Launch says how a foreign proxy is started.
type Launch struct {
	Init  []string // argv of the hidden subcommand whose work Main does
	Start string   // the operator's executable: it becomes the proxy, in the foreground
	NetNS string   // path of the network namespace that it is started in
	UID   uint32   // whose packets the filter lets out; never 0
	Dir   string   // a folder of its own, which is removed with the run
	// Env is the whole environment but PATH, HOME and WALLPROOF_DIR.
	Env []string
	// Resolver is the address that /etc/resolv.conf names there.
	Resolver netip.Addr
}

// Process is a foreign proxy that was started. It and whatever it started end with
// Stop, or with this process.
type Process struct {
	cmd  *exec.Cmd
	out  tail
	done chan struct{}
	err  error // set before done is closed
}

// stopGrace is how long a foreign proxy may take to end by itself.
const stopGrace = 8 * time.Second

// Start starts the proxy; that it answers is for the caller to see.
func Start(l Launch) (*Process, error) {
	if l.UID == 0 {
		return nil, errors.New("start the proxy: its user must not be root")
	}
	if err := prepareDir(l); err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	argv := append(append([]string{}, l.Init...), strconv.Itoa(int(l.UID)), l.Dir, l.Start)
	p := &Process{done: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: l.Init[0], Args: argv, Dir: l.Dir, Stdout: &p.out, Stderr: &p.out, WaitDelay: time.Second,
		Env: append(append([]string{}, l.Env...), "HOME="+l.Dir, "WALLPROOF_DIR="+l.Dir, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		SysProcAttr: &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL, Setsid: true,
			// Of its own process namespace it is the first, so that nothing that it
			// starts outlives it.
			Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC,
		},
	}
	started := make(chan error, 1)
	// The thread that starts it stays until it has ended: the parent-death signal
	// is sent when that thread ends.
	go func() {
		err := procs.DoIn(l.NetNS, func() error {
			err := p.cmd.Start()
			started <- err
			if err == nil {
				p.err = p.cmd.Wait()
				close(p.done)
			}
			return nil
		})
		if err != nil {
			started <- err
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	return p, nil
}

// prepareDir makes the proxy's folder, with the resolver's file in it.
func prepareDir(l Launch) error {
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.Dir, resolvFile), []byte("nameserver "+l.Resolver.String()+"\n"), 0o644); err != nil {
		return err
	}
	return os.Chown(l.Dir, int(l.UID), int(l.UID))
}

// Done is closed when the proxy has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says how it ended, with the last of what it wrote to its output.
func (p *Process) Ended() error {
	<-p.done
	why := "with status 0"
	if p.err != nil {
		why = p.err.Error()
	}
	return fmt.Errorf("the proxy has ended (%s); the last of its output: %s", why, p.Output())
}

// Output is the last of what the proxy wrote to its standard output and error.
func (p *Process) Output() string { return p.out.String() }

// Stop ends the proxy and everything that it started.
func (p *Process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const maxTail = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := strings.TrimSpace(string(t.buf)); s != "" {
		return s
	}
	return "nothing"
}
