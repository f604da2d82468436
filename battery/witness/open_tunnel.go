package witness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/battery/witness/gullible"
	"github.com/wallproof/wallproof/battery/witness/lenient"
)

// handleConnect opens a tunnel. It ends the connection's life as a proxy's.
func (o *Open) handleConnect(c *conn, req *lenient.Request) bool {
	to, err := o.resolve(o.w.ctx, gullible.Parse(req.Target), 443)
	if err != nil {
		return o.fail(c, req, err)
	}
	up, err := o.connect(o.w.ctx, to)
	if err != nil {
		return o.fail(c, req, err)
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = up.Close()
		return false
	}
	o.tunnel(c, up, to)
	return false
}

// tunnel passes a connection on. HTTP in it is read, and so is HTTP over TLS
// when a credential is injected for the name that the ClientHello or the
// tunnel's opening gave; the rest goes through untouched.
func (o *Open) tunnel(c *conn, up net.Conn, to target) {
	t := &tunnel{to: to, first: up}
	patience := idleTime
	if greetings[to.addr.Port()] != "" { // the server speaks first there
		patience = silence
	}
	switch o.peek(c, patience) {
	case wireTLS:
		hello := readHello(c)
		if hello == nil || !o.intercepts(hello.ServerName, to.host.String()) {
			splice(c, up)
			return
		}
		o.intercept(c, t, hello.ServerName)
	case wireHTTP2:
		o.serveTwo(c, t)
	case wireHTTP:
		if head, _ := c.br.Peek(len("CONNECT ")); string(head) == "CONNECT " { // to another proxy, or to this one again
			splice(c, up)
			return
		}
		o.serveOne(c, t)
	default:
		splice(c, up)
	}
}

// peek tells what a client sends first; a client that waits for the server to
// speak sends nothing.
func (o *Open) peek(c *conn, patience time.Duration) wire {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	for {
		if kind, err := sniffNext(c.br); kind != wireUnknown || err != nil {
			return kind
		}
	}
}

func (o *Open) intercepts(names ...string) bool {
	for _, n := range names {
		if len(o.injections(strings.ToLower(n))) > 0 {
			return true
		}
	}
	return false
}

// intercept ends the client's TLS here and serves HTTP inside it.
func (o *Open) intercept(c *conn, t *tunnel, sni string) {
	name := sni
	if name == "" {
		name = t.to.host.String()
	}
	cert, err := o.w.minter.For(name)
	if err != nil {
		t.close()
		return
	}
	session := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}})
	_ = c.SetDeadline(time.Now().Add(idleTime))
	ctx, cancel := context.WithTimeout(o.w.ctx, idleTime)
	defer cancel()
	if session.HandshakeContext(ctx) != nil {
		t.close()
		return
	}
	up, err := secure(o.w.ctx, t.first, sni)
	if err != nil {
		t.first = nil
		return
	}
	t.first, t.secure, t.sni = up, true, sni
	inner := newConn(session, c.ledger)
	inner.inTLS, inner.ends = true, c.ends
	defer inner.Close()
	if session.ConnectionState().NegotiatedProtocol == "h2" {
		o.serveTwo(inner, t)
		return
	}
	o.serveOne(inner, t)
}

// readHello reads a ClientHello and puts it back. It returns nil when there was
// none to be read.
func readHello(c *conn) (hello *tls.ClientHelloInfo) {
	rec := &recording{Conn: c}
	_ = c.SetReadDeadline(time.Now().Add(idleTime))
	hello = peekHello(rec)
	c.br = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rec.read), c.br), peekSize)
	return hello
}

// recording keeps what is read and lets nothing out.
type recording struct {
	net.Conn
	read []byte
}

// Read reads and keeps.
func (r *recording) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

// Write drops the alert that ends the peek.
func (r *recording) Write(b []byte) (int, error) { return len(b), nil }

// buffered is a connection of which some bytes were read ahead.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

// Read reads what was read ahead, then from the connection.
func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// splice copies both ways until both have ended, and closes the far end.
func splice(c *conn, up net.Conn) {
	defer up.Close()
	_ = c.SetDeadline(c.ends)
	_ = up.SetDeadline(c.ends)
	join(c, up)
}

// join copies both ways until one way has failed or both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			if _, err := io.Copy(pair[0], pair[1]); err != nil { // one way broken is both
				_ = a.Close()
				_ = b.Close()
				return
			}
			closeWrite(pair[0])
		})
	}
	both.Wait()
}

// closeWrite ends one way of a connection, both where that is not possible.
func closeWrite(c net.Conn) {
	switch v := c.(type) {
	case *conn:
		closeWrite(v.Conn)
	case buffered:
		closeWrite(v.Conn)
	case interface{ CloseWrite() error }:
		_ = v.CloseWrite()
	default:
		_ = c.Close()
	}
}

// SOCKS5 (RFC 1928).
const (
	socksVersion = 5
	socksConnect = 1
	socksIPv4    = 1
	socksName    = 3
	socksIPv6    = 4
)

// socks serves one SOCKS5 client, without authentication.
func (o *Open) socks(c *conn) {
	_ = c.SetDeadline(time.Now().Add(idleTime))
	h, port, err := readSOCKS(c)
	if err != nil {
		return
	}
	to, err := o.resolve(o.w.ctx, h, port)
	var up net.Conn
	if err == nil {
		up, err = o.connect(o.w.ctx, to)
	}
	reply := []byte{socksVersion, 0, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
	if err != nil {
		reply[1] = 4 // host unreachable
	}
	if _, werr := c.Write(reply); werr != nil || err != nil {
		if up != nil {
			_ = up.Close()
		}
		return
	}
	o.tunnel(c, up, to)
}

// readSOCKS reads the greeting and the request.
func readSOCKS(c net.Conn) (gullible.Host, uint16, error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:2]); err != nil {
		return gullible.Host{}, 0, err
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[1])); err != nil {
		return gullible.Host{}, 0, err
	}
	if _, err := c.Write([]byte{socksVersion, 0}); err != nil {
		return gullible.Host{}, 0, err
	}
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return gullible.Host{}, 0, err
	}
	if head[1] != socksConnect {
		return gullible.Host{}, 0, fmt.Errorf("SOCKS command %d", head[1])
	}
	size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[head[3]]
	if head[3] == socksName {
		var n [1]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return gullible.Host{}, 0, err
		}
		size = int(n[0])
	}
	raw := make([]byte, size+2)
	if _, err := io.ReadFull(c, raw); err != nil {
		return gullible.Host{}, 0, err
	}
	port := binary.BigEndian.Uint16(raw[size:])
	if head[3] == socksName {
		h := gullible.Parse(string(raw[:size]))
		h.Port = port
		return h, port, nil
	}
	a, ok := netip.AddrFromSlice(raw[:size])
	if !ok {
		return gullible.Host{}, 0, fmt.Errorf("SOCKS address type %d", head[3])
	}
	return gullible.Host{Addr: a.Unmap()}, port, nil
}
