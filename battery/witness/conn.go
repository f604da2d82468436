package witness

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/wallproof/wallproof/battery/witness/scan"
	"github.com/wallproof/wallproof/probes/canary"
)

// Times of a connection. They are short because nothing waits for the world but
// what is under test, and long enough for a slow drip.
const (
	silence  = 250 * time.Millisecond // after which a server that speaks first would have spoken
	idleTime = 10 * time.Second       // without a byte
	lifeTime = 2 * time.Minute        // of a connection
)

// peekSize is how much of a connection is looked at to tell its protocol.
const peekSize = 4096

// maxClientHello is how much of a TLS session is scanned in clear.
const maxClientHello = 16 << 10

// conn is one connection to the world, or the TLS session inside one. Its reads
// are scanned as they pass.
type conn struct {
	net.Conn // what is below: the socket, or the TLS session
	*ledger
	ends   time.Time
	inTLS  bool
	br     *bufio.Reader // over tap
	stream *scan.Stream
	tail   []byte // for canaries that straddle two reads
	seen   int    // bytes scanned
	most   int    // bytes to scan

	once    sync.Once
	onClose func()
}

// newConn wraps a connection.
func newConn(below net.Conn, l *ledger) *conn {
	c := &conn{Conn: below, ledger: l, ends: time.Now().Add(lifeTime), stream: l.w.finder.Stream(), most: maxStream}
	c.br = bufio.NewReaderSize(tap{c}, peekSize)
	_ = below.SetDeadline(c.ends)
	return c
}

// tap reads from below and scans.
type tap struct{ c *conn }

// Read reads and scans.
func (t tap) Read(b []byte) (int, error) {
	n, err := t.c.Conn.Read(b)
	if n > 0 {
		t.c.scan(b[:n])
	}
	return n, err
}

// scan looks at bytes as they arrive. One goroutine reads a connection.
func (c *conn) scan(b []byte) {
	c.w.touch()
	if c.seen > c.most {
		c.arrive(b, nil, nil, c.inTLS)
		return
	}
	c.seen += len(b)
	buf := append(c.tail, b...)
	c.arrive(b, c.stream.Add(b), canary.Find(buf), c.inTLS)
	c.tail = append([]byte(nil), buf[max(0, len(buf)-scan.Carry):]...)
}

// Read reads what is buffered, then from below.
func (c *conn) Read(b []byte) (int, error) { return c.br.Read(b) }

// SetDeadline bounds any deadline by the connection's life.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(c.bound(t)) }

// SetReadDeadline is SetDeadline for reads.
func (c *conn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.bound(t)) }

// SetWriteDeadline is SetDeadline for writes.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.bound(t)) }

func (c *conn) bound(t time.Time) time.Time {
	if t.IsZero() || t.After(c.ends) {
		return c.ends
	}
	return t
}

// Close ends the connection and records what is left of it. It is idempotent.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		c.attribute()
		if c.onClose != nil {
			c.onClose()
		}
	})
	return err
}

// Listener is a listening socket of the world with the means to tell where its
// connections were going.
type Listener struct {
	net.Listener
	// Dest returns the destination that a connection's client dialled; nil means
	// the connection's local address.
	Dest func(net.Conn) (netip.AddrPort, error)
}

// ServeTCP serves a listener until the world is closed. It returns at once.
func (w *World) ServeTCP(l Listener) {
	w.serveListener(l.Listener, func(c net.Conn) {
		dst := addrPort(c.LocalAddr())
		if l.Dest != nil {
			if d, err := l.Dest(c); err == nil {
				dst = plainAddr(d)
			}
		}
		w.accept(c, addrPort(c.RemoteAddr()), dst)
	})
}

// serveListener accepts connections until the world is closed.
func (w *World) serveListener(l net.Listener, take func(net.Conn)) {
	if !w.own(l, func() { _ = l.Close() }) {
		return
	}
	w.start(func() {
		for {
			c, err := l.Accept()
			switch {
			case err == nil:
				w.touch()
				take(c)
			case w.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
				return
			default: // out of descriptors, or reset before it was accepted
				w.fail("accept: " + err.Error())
				if !w.pause(silence) {
					return
				}
			}
		}
	})
}

// pause waits; false when the world ended meanwhile.
func (w *World) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// accept takes over a connection that came over the wire.
func (w *World) accept(c net.Conn, src, dst netip.AddrPort) {
	service := w.serviceAt(dst.Addr())
	if n := w.byAddr[dst.Addr()]; n != "" {
		w.rec.see(sighting{nonces: []string{n}, service: service, proto: "tcp", src: src, dst: dst})
	}
	l := newLedger(w, src, dst)
	l.flow = w.flows.add(flowKey{"tcp", src, dst}, l, service)
	w.serve(newConn(c, l))
}

// serve answers a connection as the world does.
func (w *World) serve(c *conn) { w.serveWith(c, w.speak) }

// serveWith answers a connection in a goroutine of its own, if there is room.
func (w *World) serveWith(c *conn, speak func(*conn)) {
	if !w.slots.TryAcquire(1) {
		c.onClose = func() { w.flows.end(c.flow) }
		_ = c.Close()
		return
	}
	c.onClose = func() {
		w.flows.end(c.flow)
		w.disown(c)
		w.slots.Release(1)
	}
	if !w.own(c, func() { _ = c.Conn.Close() }) {
		_ = c.Close()
		return
	}
	w.start(func() { speak(c) })
}

// startTLS is the server's side of a TLS session over the connection; the result
// takes its place, and closing it closes both.
func (c *conn) startTLS() (*conn, error) {
	c.most = maxClientHello
	_ = c.SetDeadline(time.Now().Add(idleTime))
	session := tls.Server(c, c.w.tlsConfig(c.ledger))
	ctx, cancel := context.WithTimeout(c.w.ctx, idleTime)
	defer cancel()
	if err := session.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	inner := newConn(session, c.ledger)
	inner.inTLS, inner.ends = true, c.ends
	inner.onClose = func() { _ = c.Close() }
	return inner, nil
}

// addrPort converts an address of package net; the zero AddrPort when it is
// neither TCP's nor UDP's.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return plainAddr(a.AddrPort())
	case *net.UDPAddr:
		return plainAddr(a.AddrPort())
	}
	return netip.AddrPort{}
}

// plainAddr drops what makes equal addresses differ.
func plainAddr(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
