package proxy

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wallproof/wallproof/policy"
)

// tick is how often deadlines of connections are looked at. They are counted
// in ticks, so that a read or write costs no system call and no timer.
const tick = 250 * time.Millisecond

// clock counts ticks since the server began.
type clock struct{ ticks atomic.Int64 }

func (c *clock) after(d time.Duration) int64 { return c.ticks.Load() + int64(d/tick) + 1 }

// conn is a connection of a sandbox. Its deadline moves with every byte in
// either direction; while a head is awaited it does not.
type conn struct {
	net.Conn
	srv     *Server
	kind    Kind
	client  string                  // address and port
	origin  *origin                 // HTTP/2: set before the connection is handed over
	dst     atomic.Pointer[target]  // what it was bound to
	limited atomic.Bool             // it met a limit of the policy, which was recorded
	spliced atomic.Bool             // TLS is passed on untouched
	relayed atomic.Pointer[relayed] // set when a relay takes the connection over
	asking  asking                  // the requests that are being carried out
	orig    netip.AddrPort          // transparent: the original destination
	pre     []byte                  // read already, to be read again
	expire  atomic.Int64            // tick at which the connection is closed
	fixed   atomic.Bool             // reads and writes do not move the deadline
	timed   atomic.Bool             // it was closed because of its deadline
	ctx     context.Context
	cancel  context.CancelFunc
	up      atomic.Int64 // bytes from the sandbox
	down    atomic.Int64 // bytes to the sandbox
	closing sync.Once
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.pre) > 0 {
		n := copy(p, c.pre)
		c.pre = c.pre[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.up.Add(int64(n))
	c.touch()
	if over := c.useBytes(&c.srv.usage.up, n, c.srv.rules.Load().policy.Limits.Upload); over != nil {
		return 0, over
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if over := c.useBytes(&c.srv.usage.down, len(p), c.srv.rules.Load().policy.Limits.Download); over != nil {
		return 0, over
	}
	n, err := c.Conn.Write(p)
	c.down.Add(int64(n))
	c.touch()
	return n, err
}

func (c *conn) touch() {
	if !c.fixed.Load() {
		c.expire.Store(c.srv.clock.after(c.srv.limits.idleTimeout()))
	}
}

// within sets a deadline that progress does not move.
func (c *conn) within(d time.Duration) {
	c.fixed.Store(true)
	c.expire.Store(c.srv.clock.after(d))
}

// relaxed goes back to the idle deadline.
func (c *conn) relaxed() {
	c.fixed.Store(false)
	c.touch()
}

func (c *conn) Close() error {
	err := net.ErrClosed
	c.closing.Do(func() {
		c.cancel()
		err = c.Conn.Close()
	})
	return err
}

// relayed is a connection's time in a relay, which goes on for a moment after the
// connection was closed.
type relayed struct{ over chan struct{} }

// sever closes the connection; afterwards no byte of it is passed on.
func (c *conn) sever() {
	_ = c.Close()
	if r := c.relayed.Load(); r != nil {
		<-r.over
	}
}

// asking is the set of requests of a connection that are being carried out, so that
// an edit of the policy can end those that it denies.
type asking struct {
	mu   sync.Mutex
	open map[*request]policy.Request
}

// begin takes a request in until it is over.
func (a *asking) begin(q *request, ask policy.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[*request]policy.Request{}
	}
	a.open[q] = ask
	q.done = append(q.done, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open, q)
	})
}

// denied says whether rules deny one of them.
func (a *asking) denied(r *rules) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ask := range a.open {
		if d := r.ev.Request(ask); !d.Allowed() {
			return true
		}
	}
	return false
}

// unread puts bytes back in front.
func (c *conn) unread(b []byte) { c.pre = append(append([]byte(nil), b...), c.pre...) }

// conns is the set of open client connections.
type conns struct {
	mu   sync.Mutex
	open map[*conn]struct{}
	none sync.Cond     // open is empty
	some chan struct{} // open is empty no longer; holds one
	more chan struct{} // a connection came; holds one
	used atomic.Int64  // connections ever taken in
}

func (s *conns) init() {
	s.open = map[*conn]struct{}{}
	s.none.L = &s.mu
	s.some, s.more = make(chan struct{}, 1), make(chan struct{}, 1)
}

// wake waits for the first connection after the given number; false when ctx or
// end came first.
func (s *conns) wake(ctx context.Context, end <-chan time.Time, before int64) bool {
	for s.used.Load() == before {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			return false
		case <-s.more:
		}
	}
	return true
}

// wait returns when there is none.
func (s *conns) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) > 0 {
		s.none.Wait()
	}
}

func (s *conns) add(c *conn, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= limit {
		return false
	}
	s.open[c] = struct{}{}
	s.used.Add(1)
	for _, c := range []chan struct{}{s.some, s.more} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return true
}

func (s *conns) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if len(s.open) == 0 {
		s.none.Broadcast()
	}
}

func (s *conns) each(f func(*conn)) {
	s.mu.Lock()
	all := make([]*conn, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		f(c)
	}
}

func (s *conns) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// keepTime closes connections whose deadline has passed, until ctx ends. Without
// a connection it sleeps, and so does the process.
func (s *Server) keepTime(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		if s.conns.count() == 0 {
			select {
			case <-ctx.Done():
				return
			case <-s.conns.some:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.closeLate(s.clock.ticks.Add(1))
		}
	}
}

func (s *Server) closeLate(now int64) {
	s.conns.each(func(c *conn) {
		if c.expire.Load() < now {
			c.timed.Store(true)
			_ = c.Close()
		}
	})
}

// Linger returns when a proxy that was kept after its run has to end: after
// longest, or with ctx. After idle without a connection it idles: it gives back
// what memory it can and sleeps until a connection wakes it. idling, if not nil, is
// told when that begins and ends.
func (s *Server) Linger(ctx context.Context, longest, idle time.Duration, idling func(bool)) {
	if idling == nil {
		idling = func(bool) {}
	}
	end := time.NewTimer(longest)
	defer end.Stop()
	if idle <= 0 || idle > longest {
		idle = longest
	}
	for {
		before := s.conns.used.Load()
		quiet := time.NewTimer(idle)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return
		case <-end.C:
			quiet.Stop()
			return
		case <-quiet.C:
		}
		if s.conns.used.Load() != before || s.conns.count() != 0 {
			continue
		}
		idling(true)
		s.modelClient.CloseIdleConnections()
		debug.FreeOSMemory()
		if !s.conns.wake(ctx, end.C, before) {
			return
		}
		idling(false)
	}
}

// Pools of buffers: a connection that waits for its next request holds none
// but its reader.
const ioBuffer = 16 << 10

var (
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, ioBuffer) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, ioBuffer) }}
	copies  = sync.Pool{New: func() any { b := make([]byte, 2*ioBuffer); return &b }}
)
