package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// link is one HTTP/1.1 connection to the outside.
type link struct {
	net.Conn
	raw        net.Conn // below TLS
	target     target
	scheme     string
	addr       netip.AddrPort
	generation uint64
	br         *bufio.Reader
	bw         *bufio.Writer
	rr         *httpx.ResponseReader
	body       httpx.Body
}

func (l *link) close() {
	_ = l.Conn.Close()
	if l.br != nil {
		l.br.Reset(nil)
		readers.Put(l.br)
		l.bw.Reset(nil)
		writers.Put(l.bw)
		l.br, l.bw = nil, nil
	}
}

// alive says whether an idle connection can take a request: the other side has
// neither closed it nor said anything unasked.
func (l *link) alive() bool {
	return l.br.Buffered() == 0 && quiet(l.raw, l.scheme == "https")
}

// h1pool keeps idle links of one client connection.
type h1pool struct {
	mu     sync.Mutex
	idle   []*link
	closed bool
}

// maxIdle is how many links a client connection keeps: one for HTTP/1.1, a few
// for HTTP/2 clients of HTTP/1.1 servers.
const maxIdle = 8

func (p *h1pool) take(t target, scheme string, generation uint64) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		l := p.idle[i]
		if l.target != t || l.scheme != scheme || l.generation != generation {
			continue
		}
		p.idle = append(p.idle[:i], p.idle[i+1:]...)
		if l.alive() {
			return l
		}
		l.close()
	}
	return nil
}

func (p *h1pool) give(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.close()
		return
	}
	if len(p.idle) >= maxIdle {
		p.idle[0].close()
		p.idle = p.idle[1:]
	}
	p.idle = append(p.idle, l)
}

func (p *h1pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, l := range p.idle {
		l.close()
	}
	p.idle = nil
}

// connect goes through both gates and dials. The connection that it returns
// leads to an address that was classified for this very target.
func (o *origin) connect(ctx context.Context, r *rules, t target) (net.Conn, netip.AddrPort, *refusal) {
	addrs, ref := o.s.addresses(ctx, r, t)
	if ref != nil {
		return nil, netip.AddrPort{}, ref
	}
	if addrs, ref = o.s.agreeOriginal(r, o.c, t, addrs); ref != nil {
		return nil, netip.AddrPort{}, ref
	}
	return o.s.dial(ctx, t, o.s.breaks.again(ctx, o.s, t, addrs))
}

// connectTLS is connect with a handshake. The upstream's certificate is always
// verified against the target's name.
func (o *origin) connectTLS(ctx context.Context, r *rules, t target, alpn []string) (*tls.Conn, net.Conn, netip.AddrPort, *refusal) {
	raw, addr, ref := o.connect(ctx, r, t)
	if ref != nil {
		return nil, nil, addr, ref
	}
	cfg := o.s.upstreamTLS.Clone()
	cfg.ServerName = t.host.String()
	cfg.NextProtos = alpn
	tc := tls.Client(raw, cfg)
	hctx, cancel := context.WithTimeout(ctx, o.s.limits.dialTimeout())
	defer cancel()
	if err := tc.HandshakeContext(hctx); err != nil {
		_ = raw.Close()
		return nil, nil, addr, &refusal{status: 502, reason: ReasonUpstreamTLS, err: err}
	}
	return tc, raw, addr, nil
}

func (o *origin) newLink(ctx context.Context, r *rules, q *request) (*link, *refusal) {
	l := &link{target: q.target, scheme: q.scheme, generation: r.generation}
	var ref *refusal
	if q.scheme == "https" {
		var tc *tls.Conn
		if tc, l.raw, l.addr, ref = o.connectTLS(ctx, r, q.target, []string{"http/1.1"}); ref == nil {
			l.Conn = tc
		}
	} else if l.raw, l.addr, ref = o.connect(ctx, r, q.target); ref == nil {
		l.Conn = l.raw
	}
	if ref != nil {
		return nil, ref
	}
	o.equip(l)
	return l, nil
}

func (o *origin) equip(l *link) {
	l.br = readers.Get().(*bufio.Reader)
	l.br.Reset(l.Conn)
	l.bw = writers.Get().(*bufio.Writer)
	l.bw.Reset(l.Conn)
	l.rr = httpx.NewResponseReader(l.br, o.s.headLimits)
}

// roundTrip1 sends a request over HTTP/1.1 and reads the response's head.
func (o *origin) roundTrip1(ctx context.Context, r *rules, q *request) (*response, *refusal) {
	for {
		l := o.h1.take(q.target, q.scheme, r.generation)
		reused := l != nil
		if l == nil {
			var ref *refusal
			if l, ref = o.newLink(ctx, r, q); ref != nil {
				return nil, ref
			}
		}
		q.dialled = l.addr.String()
		resp, err := o.try(ctx, l, q)
		if err == nil {
			return resp, nil
		}
		// An idle connection may have been closed while the request was under
		// way. Only what has no body can be sent again, and only what may be carried
		// out twice.
		if reused && q.body == nil && isIdempotent(q.method) && isClosed(err) {
			continue
		}
		return nil, responseError(err)
	}
}

// clientFault is a request's body that the client did not send as it should.
type clientFault struct{ error }

func (e clientFault) Unwrap() error { return e.error }

func isClientFault(err error) bool {
	var fault clientFault
	return errors.As(err, &fault)
}

func responseError(err error) *refusal {
	var he *httpx.Error
	if isClientFault(err) && errors.As(err, &he) {
		return &refusal{status: he.Status, reason: he.Reason, err: err}
	}
	if errors.As(err, &he) {
		return &refusal{status: 502, reason: ReasonUpstreamResponse, err: err}
	}
	return &refusal{status: 502, reason: ReasonUpstreamClosed, err: err}
}

// isIdempotent says whether a method may be sent again without harm: nobody knows
// whether the first was carried out (RFC 9110, section 9.2.2).
func isIdempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE":
		return true
	}
	return false
}

func isClosed(err error) bool {
	var he *httpx.Error
	return !errors.As(err, &he)
}

// try sends the request on l. The body is sent beside the wait for the
// response, which may come first. After an error l is gone.
func (o *origin) try(ctx context.Context, l *link, q *request) (*response, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.raw.Close() })
	sent := make(chan error, 1)
	err := writeHead(l.bw, q)
	switch {
	case err != nil:
		sent <- err
	case q.body == nil:
		err = l.bw.Flush()
		sent <- err
	default:
		q.sending = make(chan struct{})
		go func() {
			defer close(q.sending)
			err := sendBody(l.bw, q)
			sent <- err
			if isClientFault(err) {
				_ = l.raw.Close() // the upstream would wait for the rest for ever
			}
		}()
	}
	var p *httpx.Response
	if err == nil {
		p, err = l.rr.Read(q.method)
	}
	if err != nil {
		stop()
		select {
		case fault := <-sent:
			sent <- fault
			if isClientFault(fault) {
				err = fault
			}
		default:
		}
		l.retire(sent)
		return nil, err
	}
	return o.received(l, q, p, sent, stop), nil
}

// retire closes the connection and gives its buffers back when the sender,
// which may be waiting for the client, has let go of them.
func (l *link) retire(sent chan error) {
	_ = l.raw.Close()
	select {
	case <-sent:
		l.close()
	default:
		go func() { <-sent; l.close() }()
	}
}

// received wraps a response head whose body is still on l.
func (o *origin) received(l *link, q *request, p *httpx.Response, sent chan error, stop func() bool) *response {
	resp := &response{status: p.Status, header: p.Header, length: p.Length, trailer: l.body.Trailer}
	if p.Status == 101 {
		resp.stream = &bufferedConn{l.Conn, l.br}
		resp.release = func(bool) { stop(); l.retire(sent) }
		return resp
	}
	l.body.Reset(l.br, p.Length, o.s.headLimits, true)
	if q.method == "HEAD" {
		resp.length = headLength(p.Header)
	} else if p.Length != 0 {
		resp.body, resp.ended = &l.body, l.body.Done
		resp.late = func() bool { return l.br.Buffered() == 0 }
		if p.Length < 0 {
			resp.length = httpx.Chunked
		}
	}
	keep := p.KeepAlive
	resp.release = func(whole bool) {
		if !stop() || !whole || !keep || !l.body.Done() {
			l.retire(sent)
			return
		}
		select {
		case err := <-sent:
			sent <- err
			if err == nil {
				o.h1.give(l)
				return
			}
		default: // the response is over before the request: the rest is of no use
		}
		l.retire(sent)
	}
	return resp
}

// headLength is the Content-Length that a HEAD response announces, or -1.
func headLength(h httpx.Header) int64 {
	n, err := httpx.ContentLength(h)
	if err != nil {
		return -1
	}
	return n
}

func writeHead(w *bufio.Writer, q *request) error {
	httpx.WriteRequestLine(w, q.method, q.requestURI())
	httpx.WriteField(w, "Host", q.hostField())
	httpx.WriteFields(w, q.header)
	switch {
	case q.websocket:
		w.WriteString("Connection: Upgrade\r\nUpgrade: websocket\r\n")
	case q.framing.write(w):
	case q.body != nil || needsLength(q.method):
		httpx.WriteLength(w, q.length)
	}
	_, err := w.WriteString("\r\n")
	return err
}

func needsLength(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}

func sendBody(w *bufio.Writer, q *request) error {
	if q.expect != nil {
		if err := q.expect(); err != nil {
			return err
		}
	}
	var dst io.Writer = w
	chunks := httpx.ChunkWriter{W: w}
	if q.length == httpx.Chunked {
		dst = chunks
	}
	box := copies.Get().(*[]byte)
	defer copies.Put(box)
	for {
		n, err := q.body.Read(*box)
		if n > 0 {
			if _, werr := dst.Write((*box)[:n]); werr != nil {
				return werr
			}
			if werr := w.Flush(); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			var he *httpx.Error
			if errors.As(err, &he) {
				return clientFault{err}
			}
			return err
		}
	}
	if q.length == httpx.Chunked {
		if err := chunks.Close(nil); err != nil {
			return err
		}
	}
	return w.Flush()
}

// bufferedConn reads what a bufio.Reader holds before its connection.
type bufferedConn struct {
	net.Conn
	br *bufio.Reader
}

func (b *bufferedConn) Read(p []byte) (int, error) { return b.br.Read(p) }
