package witness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/internal/procs/origdst"
)

// Names of inherited files: the sockets by their index, and the pipe with
// commands.
const (
	socketFile  = "socket-" // and the index
	controlFile = "control"
)

// maxCommand bounds a line of the control pipe.
const maxCommand = 4096

// server is what both roles are to Main.
type server interface {
	CAPEM() string
	Sync(context.Context) error
	Dropped() uint64
	Close() error
	serveSocket(kind SocketKind, f *os.File) error
}

// Main is the witness's process, of either role. It serves until it is sent
// SIGTERM or its control pipe is closed. The error says why it could not start.
func Main() error {
	var cfg Config
	child, err := procs.Join(&cfg)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	out := newOutbox(child)
	s, err := open(cfg, child, out.put)
	if err != nil {
		return errors.Join(fmt.Errorf("witness: %w", err), child.Fail(err))
	}
	if err := child.Ready(Ready{CAPEM: s.CAPEM()}); err != nil {
		return errors.Join(fmt.Errorf("witness: %w", err), s.Close())
	}
	out.release()
	for _, f := range child.Files(controlFile) {
		go func() {
			defer cancel()
			obey(stop, f, s, out.put)
		}()
	}
	<-stop.Done()
	err = s.Close()
	out.put(Event{Type: EventStopped, Dropped: s.Dropped()})
	return errors.Join(err, out.failed())
}

// open makes the server of a role and gives it its sockets.
func open(cfg Config, child *procs.Child, put func(Event)) (server, error) {
	var s server
	var err error
	if cfg.Role == RoleOpenProxy {
		s, err = NewOpen(cfg, put)
	} else {
		s, err = New(cfg, put)
	}
	if err != nil {
		return nil, err
	}
	for i, sock := range cfg.Sockets {
		files := child.Files(socketFile + strconv.Itoa(sock.FD))
		if len(files) != 1 {
			return nil, errors.Join(fmt.Errorf("%w: socket %d has no file", ErrConfig, i), s.Close())
		}
		if err := s.serveSocket(sock.Kind, files[0]); err != nil {
			return nil, errors.Join(fmt.Errorf("socket %d (%s): %w", i, sock.Kind, err), s.Close())
		}
		_ = files[0].Close()
	}
	return s, nil
}

// obey carries out commands until the pipe ends.
func obey(ctx context.Context, f *os.File, s server, put func(Event)) {
	sc := bufio.NewScanner(io.Reader(f))
	sc.Buffer(make([]byte, 256), maxCommand)
	for sc.Scan() {
		var c Command
		if json.Unmarshal(sc.Bytes(), &c) != nil || c.Sync == 0 {
			put(Event{Type: EventFailure, Detail: "control: unknown command"})
			continue
		}
		if s.Sync(ctx) == nil {
			put(Event{Type: EventSynced, ID: c.Sync, Dropped: s.Dropped()})
		}
	}
}

// outbox holds events back until Ready has been sent, as procs wants it.
type outbox struct {
	child *procs.Child

	mu    sync.Mutex
	early []Event
	open  bool
	err   error
}

func newOutbox(c *procs.Child) *outbox { return &outbox{child: c} }

func (o *outbox) put(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open {
		o.early = append(o.early, e)
		return
	}
	o.send(e)
}

func (o *outbox) send(e Event) {
	if err := o.child.Event(e); err != nil && o.err == nil {
		o.err = err
	}
}

func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = true
	for _, e := range o.early {
		o.send(e)
	}
	o.early = nil
}

func (o *outbox) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// serveSocket serves an inherited socket of the world.
func (w *World) serveSocket(kind SocketKind, f *os.File) error {
	switch kind {
	case SocketTCP:
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		w.ServeTCP(Listener{Listener: l, Dest: originalDst})
		return nil
	case SocketUDP:
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		u, ok := c.(*net.UDPConn)
		if !ok {
			return errors.Join(errors.New("not a UDP socket"), c.Close())
		}
		w.ServeUDP(AnyPort(u))
		return nil
	case SocketCapture:
		return w.ServeCapture(f)
	}
	return fmt.Errorf("%w: the world has no socket of kind %q", ErrConfig, kind)
}

// originalDst is the destination before the redirect.
func originalDst(c net.Conn) (netip.AddrPort, error) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}, errors.New("not a TCP connection")
	}
	return origdst.TCP(t)
}
