package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/policy/proxy/confine"
)

// discardLog takes what net/http would print: it may hold a request's content.
var discardLog = log.New(io.Discard, "", 0)

// controlFile is the name of the descriptor that updates come over.
const controlFile = "control"

// stopTime is how long connections may go on after SIGTERM.
const stopTime = time.Second

// Main is the proxy's process, started by Start. It returns the exit code.
func Main() int {
	var cfg Config
	child, err := procs.Join(&cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := serveProcess(child, cfg, signals); err != nil {
		_ = child.Fail(err)
		return 1
	}
	return 0
}

// serveProcess runs the server until a signal. Events go out in batches, so
// that a busy proxy does not write a line for each.
func serveProcess(child *procs.Child, cfg Config, signals <-chan os.Signal) error {
	out := newBatcher(func(batch []Event) error { return child.Event(batch) })
	defer out.close()
	cfg.OnEvent = out.add
	srv, err := New(cfg)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(srv.limits.MemoryBytes)
	failed := make(chan error, 64)
	if err := srv.serveInherited(child, failed); err != nil {
		_ = srv.Close()
		return err
	}
	ready := srv.ready()
	if ready.Confinement, err = confine.Process(); err != nil {
		_ = srv.Close()
		return err
	}
	if err := child.Ready(ready); err != nil {
		_ = srv.Close()
		return err
	}
	out.start()
	go srv.control(child.Files(controlFile))
	select {
	case <-signals:
	case err = <-failed:
		// A proxy that lost a listener is no boundary: it ends, and with it the
		// only way out.
		srv.failure(ReasonInternal, "listener")
	case err = <-out.failed:
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	revoked := srv.Shutdown(ctx)
	srv.send(&Event{Type: EventStopped, Time: srv.now().UTC().Format(eventTime), RunID: srv.runID})
	return errors.Join(err, revoked)
}

func (s *Server) ready() Ready {
	state := "enforced"
	if s.NothingToEnforce() {
		state = "nothing-to-enforce"
	}
	return Ready{CAPEM: string(s.CAPEM()), PolicyDigest: s.PolicyDigest(), Enforcement: state, Lets: s.lets(), Pushes: s.pushes(), Opens: s.breaks.opens(), Pages: s.breaks.ownPages(), Believed: s.breaks.believedFields()}
}

// lets is what the policy in force allows, sampled, and where it injects secrets.
func (s *Server) lets() []Let {
	var out []Let
	ev := s.rules.Load().ev
	for _, a := range append(ev.Allowed(MaxLets), ev.Injected()...) {
		if len(out) == MaxLets {
			break
		}
		q := a.Request
		out = append(out, Let{q.Scheme, q.Host.String(), q.Port, q.Method, q.Path})
	}
	return append(out, s.breaks.ownLets()...)
}

// pushes is what the policy in force lets be pushed.
func (s *Server) pushes() []Push {
	var out []Push
	for _, b := range s.rules.Load().policy.Broker {
		for _, repo := range b.Repositories {
			for _, ref := range repo.Push {
				if len(out) < MaxLets {
					out = append(out, Push{repo.Name, ref})
				}
			}
		}
	}
	return out
}

// serveInherited serves every socket that was handed over.
func (s *Server) serveInherited(child *procs.Child, failed chan<- error) error {
	n := 0
	for _, kind := range []Kind{KindExplicit, KindTransparent, KindDNSTCP, KindSOCKS} {
		ls, err := child.Listeners(string(kind))
		if err != nil {
			return err
		}
		for _, l := range ls {
			n++
			go func() { failed <- s.Serve(l, kind) }()
		}
	}
	pcs, err := child.PacketConns(string(KindDNSUDP))
	if err != nil {
		return err
	}
	for _, pc := range pcs {
		n++
		go func() { failed <- s.ServePacket(pc) }()
	}
	if n == 0 {
		return errors.New("no listener was handed over")
	}
	return nil
}

// control applies updates that the parent sends as lines of JSON, and answers
// each with a line: {"error":""} when it is in force.
func (s *Server) control(files []*os.File) {
	for _, f := range files {
		conn, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			s.failure(ReasonInternal, "control")
			continue
		}
		dec, enc := json.NewDecoder(conn), json.NewEncoder(conn)
		for {
			var u Update
			if err := dec.Decode(&u); err != nil {
				break
			}
			var reply updateReply
			if err := s.Reload(u); err != nil {
				reply.Error = err.Error()
			}
			if enc.Encode(reply) != nil {
				break
			}
		}
		_ = conn.Close()
	}
}

type updateReply struct {
	Error string `json:"error"`
}

// batcher collects events and writes what has come together.
type batcher struct {
	mu     sync.Mutex
	more   sync.Cond
	queue  []Event
	closed bool
	write  func([]Event) error
	done   chan struct{}
	failed chan error
}

// Bounds of a batch and of the queue. A full queue makes connections wait: no
// decision goes unrecorded.
const (
	maxBatch = 256
	maxQueue = 8192
)

func newBatcher(write func([]Event) error) *batcher {
	b := &batcher{write: write, done: make(chan struct{}), failed: make(chan error, 1)}
	b.more.L = &b.mu
	return b
}

func (b *batcher) add(ev Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) >= maxQueue && !b.closed {
		b.more.Wait()
	}
	b.queue = append(b.queue, ev)
	b.more.Broadcast()
}

// start begins to write: events may come only after the Ready line.
func (b *batcher) start() { go b.run() }

func (b *batcher) run() {
	defer close(b.done)
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.closed {
			b.more.Wait()
		}
		batch := b.queue[:min(len(b.queue), maxBatch)]
		b.queue = b.queue[len(batch):]
		ended := b.closed && len(batch) == 0
		b.more.Broadcast()
		b.mu.Unlock()
		if ended {
			return
		}
		if err := b.write(batch); err != nil {
			b.failed <- fmt.Errorf("record events: %w", err)
			return
		}
	}
}

// close writes what is left.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.more.Broadcast()
	b.mu.Unlock()
	select {
	case <-b.done:
	case <-time.After(stopTime):
	}
}
