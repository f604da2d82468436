//go:build linux

package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// relays copy the bytes of spliced connections, each from a thread of its own
// over its own epoll: nothing is looked at any more, and a goroutine for each
// direction, woken for every packet, costs more than the copying. They start with
// the first spliced connection.
type relays struct {
	mu     sync.Mutex
	all    []*relay
	next   int
	closed bool
}

// relayThreads is how many relays there are: threads beyond the machine's cores
// gain nothing, and the rest of the proxy needs some, too.
func relayThreads() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// pick returns a relay, or an error when none can be made.
func (rs *relays) pick() (*relay, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return nil, net.ErrClosed
	}
	if len(rs.all) == 0 {
		for range relayThreads() {
			r, err := newRelay()
			if err != nil {
				break
			}
			rs.all = append(rs.all, r)
		}
		if len(rs.all) == 0 {
			return nil, errors.New("no relay can be made")
		}
	}
	rs.next++
	return rs.all[rs.next%len(rs.all)], nil
}

// close ends the relays. What they still copy is cut off.
func (rs *relays) close() {
	rs.mu.Lock()
	rs.closed = true
	all := rs.all
	rs.mu.Unlock()
	for _, r := range all {
		r.tell(func() { r.quit = true })
		<-r.ended
	}
}

// relay is one thread. What is not behind its lock is the thread's own.
type relay struct {
	ep, wake int
	ended    chan struct{}
	sides    []*side // by index, as events name them; nil is free
	free     []int32
	buf      []byte
	quit     bool

	mu   sync.Mutex
	todo []func()
	gone bool
}

// relayBuffer is how much is read at once, and kept for a side that takes nothing.
const relayBuffer = 64 << 10

// relayTurn is how often a side is read in a row while it fills the buffer.
const relayTurn = 4

// pair is a spliced connection in a relay.
type pair struct {
	client, up side
	c          *conn
	down       atomic.Int64 // bytes to the client
	over       bool         // a limit of the policy is used up; set before done is closed
	ended      bool
	done       chan struct{}
}

// side is one socket of a pair.
type side struct {
	pair    *pair
	other   *side
	fd      int
	index   int32
	events  uint32 // that epoll watches for; 0 is not registered
	waiting []byte // read here, and not yet taken by the other side
	eof     bool   // nothing more is read here
}

func newRelay() (*relay, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1})
	}
	if err != nil {
		_ = unix.Close(wake)
		_ = unix.Close(ep)
		return nil, err
	}
	r := &relay{ep: ep, wake: wake, ended: make(chan struct{}), buf: make([]byte, relayBuffer)}
	go r.run()
	return r, nil
}

// tell has the thread do something.
func (r *relay) tell(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return
	}
	r.todo = append(r.todo, f)
	if len(r.todo) == 1 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(r.wake, one[:])
	}
}

func (r *relay) run() {
	defer close(r.ended)
	events := make([]unix.EpollEvent, 128)
	for !r.quit {
		n, err := unix.EpollWait(r.ep, events, -1)
		if err != nil && err != unix.EINTR {
			break
		}
		told := false
		for _, e := range events[:max(n, 0)] {
			if e.Fd < 0 {
				told = true
				continue
			}
			r.serve(e)
		}
		// New sides come last: an event of this batch may not be taken for one of
		// a side that has got its index since.
		if told {
			r.obey()
		}
	}
	r.end()
}

func (r *relay) obey() {
	var count [8]byte
	_, _ = unix.Read(r.wake, count[:])
	r.mu.Lock()
	todo := r.todo
	r.todo = nil
	r.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// end closes everything, once the thread does nothing more.
func (r *relay) end() {
	r.mu.Lock()
	r.gone = true
	todo := r.todo
	r.todo = nil
	r.mu.Unlock()
	for _, f := range todo {
		f()
	}
	for _, s := range r.sides {
		if s != nil {
			r.finish(s.pair)
		}
	}
	_ = unix.Close(r.wake)
	_ = unix.Close(r.ep)
}

// serve handles one event.
func (r *relay) serve(e unix.EpollEvent) {
	s := r.sides[e.Fd]
	if s == nil {
		return
	}
	// Epoll tells of the end of a connection whatever it is asked for: reading or
	// writing shows what it is.
	broken := e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
	if s.events&unix.EPOLLOUT != 0 && (broken || e.Events&unix.EPOLLOUT != 0) && !r.write(s.other) {
		return
	}
	if s.events&unix.EPOLLIN != 0 && (broken || e.Events&unix.EPOLLIN != 0) {
		r.read(s)
	}
}

// read passes on what has come.
func (r *relay) read(s *side) {
	for range relayTurn {
		n, err := unix.Read(s.fd, r.buf)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			return
		case err != nil:
			r.finish(s.pair)
			return
		case n == 0:
			r.endOf(s)
			return
		}
		if !s.pair.account(s, n) {
			r.finish(s.pair)
			return
		}
		if !r.pass(s, r.buf[:n]) || n < len(r.buf) {
			return
		}
	}
}

// account counts what was read, and says whether it may go on.
func (p *pair) account(s *side, n int) bool {
	c := p.c
	limits := &c.srv.rules.Load().policy.Limits
	c.touch()
	if s == &p.client {
		c.up.Add(int64(n))
		p.over = overLimit(&c.srv.usage.up, n, limits.Upload)
	} else if p.over = overLimit(&c.srv.usage.down, n, limits.Download); !p.over {
		c.down.Add(int64(n))
		p.down.Add(int64(n))
	}
	return !p.over
}

// pass writes to the other side, and keeps what it does not take: then s is not
// read until it has. It says whether all was taken.
func (r *relay) pass(s *side, b []byte) bool {
	n, ok := r.put(s, b)
	if !ok {
		return false
	}
	if n == len(b) {
		return true
	}
	s.waiting = append([]byte(nil), b[n:]...)
	r.watch(s, s.events&^unix.EPOLLIN)
	r.watch(s.other, s.other.events|unix.EPOLLOUT)
	return false
}

// put writes as much as the other side takes; false when the pair is over.
func (r *relay) put(s *side, b []byte) (n int, ok bool) {
	for n < len(b) {
		w, err := unix.Write(s.other.fd, b[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return n, true
		case err != nil:
			r.finish(s.pair)
			return n, false
		}
		n += w
	}
	return n, true
}

// write goes on with what was kept of s; false when the pair is over.
func (r *relay) write(s *side) bool {
	n, ok := r.put(s, s.waiting)
	if !ok {
		return false
	}
	if s.pair.c.touch(); n < len(s.waiting) {
		s.waiting = s.waiting[n:]
		return true
	}
	s.waiting = nil
	r.watch(s.other, s.other.events&^unix.EPOLLOUT)
	if !s.eof {
		r.watch(s, s.events|unix.EPOLLIN)
	}
	return true
}

// endOf: nothing more comes from s, so the other side is told; when both have
// ended, the pair has.
func (r *relay) endOf(s *side) {
	s.eof = true
	_ = unix.Shutdown(s.other.fd, unix.SHUT_WR)
	if s.other.eof {
		r.finish(s.pair)
		return
	}
	r.watch(s, s.events&^unix.EPOLLIN)
}

// watch changes what epoll watches for. A side of which nothing is wanted is taken
// out: epoll would go on telling of its end.
func (r *relay) watch(s *side, events uint32) {
	if s.pair.ended || events == s.events {
		return
	}
	op := unix.EPOLL_CTL_MOD
	switch {
	case events == 0:
		op = unix.EPOLL_CTL_DEL
	case s.events == 0:
		op = unix.EPOLL_CTL_ADD
	}
	if unix.EpollCtl(r.ep, op, s.fd, &unix.EpollEvent{Events: events, Fd: s.index}) != nil {
		r.finish(s.pair)
		return
	}
	s.events = events
}

// start takes a pair in.
func (r *relay) start(p *pair) {
	if r.quit {
		r.finish(p)
		return
	}
	for _, s := range []*side{&p.client, &p.up} {
		if n := len(r.free); n > 0 {
			s.index, r.free = r.free[n-1], r.free[:n-1]
			r.sides[s.index] = s
		} else {
			s.index = int32(len(r.sides))
			r.sides = append(r.sides, s)
		}
		if r.watch(s, unix.EPOLLIN); p.ended {
			return
		}
	}
}

// finish closes a pair. Closing a descriptor that has no other takes it out of
// epoll.
func (r *relay) finish(p *pair) {
	if p.ended {
		return
	}
	p.ended = true
	for _, s := range []*side{&p.client, &p.up} {
		_ = unix.Close(s.fd)
		s.waiting = nil
		if s.index >= 0 && r.sides[s.index] == s {
			r.sides[s.index] = nil
			r.free = append(r.free, s.index)
		}
	}
	close(p.done)
}

// relay hands both connections over to a relay and waits until they are done;
// false when they are not of a kind that it can take, and then nothing has
// happened. Afterwards they are closed.
func (o *origin) relay(up net.Conn) (down int64, ok bool) {
	a, isTCP := o.c.Conn.(*net.TCPConn)
	b, upTCP := up.(*net.TCPConn)
	if !isTCP || !upTCP || len(o.c.pre) > 0 {
		return 0, false
	}
	r, err := o.s.relays.pick()
	if err != nil {
		return 0, false
	}
	// Whoever closes the connection from here on waits until the relay has let go of
	// it; one that was closed before cannot be taken over.
	over := make(chan struct{})
	defer close(over)
	o.c.relayed.Store(&relayed{over})
	p := &pair{c: o.c, done: make(chan struct{})}
	p.client, p.up = side{pair: p, other: &p.up, index: -1}, side{pair: p, other: &p.client, index: -1}
	if p.client.fd, err = takeOver(a); err != nil {
		return 0, false
	}
	if p.up.fd, err = takeOver(b); err != nil {
		_ = unix.Close(p.client.fd)
		return 0, false
	}
	// The run-time has its own epoll, which would be woken for every packet, too.
	_, _ = a.Close(), b.Close() // both have another descriptor
	r.tell(func() { r.start(p) })
	stop := context.AfterFunc(o.ctx, func() { r.tell(func() { r.finish(p) }) })
	defer stop()
	select {
	case <-p.done:
	case <-r.ended: // the thread does nothing any more, so this may
		r.finish(p)
	}
	if p.over {
		o.c.recordLimit()
	}
	return p.down.Load(), true
}

// takeOver gives a second descriptor of a connection, which stays non-blocking.
func takeOver(c *net.TCPConn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var dupErr error
	err = raw.Control(func(old uintptr) {
		fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(err, dupErr)
}
