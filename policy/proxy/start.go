package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

// DefaultUID is who the proxy's process is: nobody.
const DefaultUID = 65534

// stopGrace is how long the process may take to close connections and revoke
// leases after it was asked to stop.
const stopGrace = 20 * time.Second

// Listener is a socket to hand over: a listening TCP socket or, for
// KindDNSUDP, a bound UDP socket.
type Listener struct {
	Kind Kind
	File *os.File
}

// Launch says how Start starts the proxy's process.
type Launch struct {
	Path      string      // the executable; "" means this very program
	Argv      []string    // what makes it call Main: the hidden subcommand of the CLI
	NetNS     string      // path of the uplink namespace; "" means the caller's
	UID, GID  uint32      // 0 means DefaultUID
	Listeners []Listener  // stay open in the parent, which closes them
	Config    Config      //
	OnEvent   func(Event) // called for every event, one at a time; nil drops them
}

// Process is a running proxy.
type Process struct {
	Ready Ready

	proc    *procs.Proc
	mu      sync.Mutex // one update at a time
	control net.Conn
	dec     *json.Decoder
}

// Start starts the proxy and waits until it serves. When it returns an error
// nothing is left running.
func Start(ctx context.Context, l Launch) (*Process, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	defer theirs.Close()
	p := &Process{control: ours, dec: json.NewDecoder(ours)}
	p.proc, err = procs.Start(ctx, l.spec(theirs))
	if err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	if err := json.Unmarshal(p.proc.Ready(), &p.Ready); err != nil {
		_ = p.Stop(ctx)
		return nil, fmt.Errorf("start proxy: read its first message: %w", err)
	}
	return p, nil
}

func (l *Launch) spec(control *os.File) procs.Spec {
	spec := procs.Spec{
		Path: l.Path, Argv: l.Argv, NetNS: l.NetNS, UID: l.UID, GID: l.GID,
		Namespaces: true,
		Config:     l.Config, StopGrace: stopGrace, OnEvent: l.onEvents,
		Files: []procs.NamedFile{{Name: controlFile, File: control}},
	}
	if spec.Path == "" {
		spec.Path = procs.Self
	}
	if spec.UID == 0 {
		spec.UID = DefaultUID
	}
	if spec.GID == 0 {
		spec.GID = DefaultUID
	}
	for _, li := range l.Listeners {
		spec.Files = append(spec.Files, procs.NamedFile{Name: string(li.Kind), File: li.File})
	}
	return spec
}

func (l *Launch) onEvents(raw json.RawMessage) {
	var batch []Event
	if err := json.Unmarshal(raw, &batch); err != nil || l.OnEvent == nil {
		return
	}
	for _, ev := range batch {
		l.OnEvent(ev)
	}
}

// controlPair makes the two ends that updates travel over.
func controlPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the control socket: %w", err)
	}
	mine := os.NewFile(uintptr(fds[0]), "control")
	defer mine.Close()
	theirs := os.NewFile(uintptr(fds[1]), "control")
	conn, err := net.FileConn(mine)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("make the control socket: %w", err)
	}
	return conn, theirs, nil
}

// Reload sends an update and waits until it is in force or refused.
func (p *Process) Reload(ctx context.Context, u Update) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(p.control).Encode(u); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	var reply updateReply
	if err := p.dec.Decode(&reply); err != nil {
		return fmt.Errorf("reload: no answer of the proxy: %w", err)
	}
	if reply.Error != "" {
		return errors.New(reply.Error)
	}
	return nil
}

// Stop ends the process: gracefully until ctx ends, then at once. It is
// idempotent and returns nil when the leases were revoked.
func (p *Process) Stop(ctx context.Context) error {
	err := p.proc.Stop(ctx)
	_ = p.control.Close()
	return err
}

// Done is closed when the process has ended for whatever reason. From then on
// the sandbox has no network: nothing else answers on the listeners.
func (p *Process) Done() <-chan struct{} { return p.proc.Done() }

// Wait waits for the end and says how it came.
func (p *Process) Wait() error { return p.proc.Wait() }

// Pid is the process's id.
func (p *Process) Pid() int { return p.proc.Pid() }
