package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// session serves HTTP/1.1 on a client connection, or on the TLS inside one.
type session struct {
	o      *origin
	c      *conn
	rw     net.Conn // c, or the TLS on it
	scheme string
	br     *bufio.Reader
	bw     *bufio.Writer
	rr     *httpx.RequestReader
	body   httpx.Body
	served bool     // a request has been answered
	q      *request // the one being carried out, nil between them
	chunks httpx.ChunkWriter
}

func newSession(o *origin, rw net.Conn, scheme string) *session {
	x := &session{o: o, c: o.c, rw: rw, scheme: scheme}
	x.br = readers.Get().(*bufio.Reader)
	x.br.Reset(rw)
	x.bw = writers.Get().(*bufio.Writer)
	x.bw.Reset(rw)
	x.rr = httpx.NewRequestReader(x.br, o.s.headLimits)
	x.chunks.W = x.bw
	o.s.breaks.relax(x.rr)
	return x
}

// end gives the buffers back. Nobody reads or writes them any more.
func (x *session) end() {
	x.br.Reset(nil)
	readers.Put(x.br)
	x.bw.Reset(nil)
	writers.Put(x.bw)
}

// next waits for a request. The wait for its first byte is an idle one, the
// rest of its head has a deadline that no trickle of bytes moves.
func (x *session) next() (*httpx.Request, error) {
	if x.br.Buffered() == 0 {
		x.c.relaxed()
		if _, err := x.br.Peek(1); err != nil {
			return nil, err
		}
	}
	x.c.within(x.o.s.limits.headTimeout())
	x.q = nil
	x.body.Reset(x.br, 1, x.o.s.headLimits, false) // until its length is known nothing may follow it
	req, err := x.rr.Read()
	x.c.relaxed()
	return req, err
}

// serve answers requests until the connection ends. handle returns false when
// it does not go on.
func (x *session) serve(handle func(*httpx.Request) bool) {
	for {
		req, err := x.next()
		if err != nil {
			x.failHead(err)
			return
		}
		if !handle(req) {
			return
		}
	}
}

// failHead answers a head that was refused, if there is somebody to answer.
func (x *session) failHead(err error) {
	var he *httpx.Error
	ev := x.o.event(x.scheme)
	switch {
	case errors.As(err, &he):
		x.refuse(&ev, &refusal{status: he.Status, reason: he.Reason}, "")
	case x.c.timed.Load() && x.br.Buffered() > 0:
		x.o.s.refused(&ev, ReasonTimeout)
	}
}

// proxied handles a request with a target of its own: absolute form at the
// explicit listener.
func (x *session) proxied(req *httpx.Request) bool {
	if x.o.s.breaks.page(x, req) {
		return false
	}
	ev := x.o.event("http")
	rest, ok := cutScheme(req.Target)
	if !ok {
		return x.refuse(&ev, deny(400, ReasonNotProxyRequest), "")
	}
	authority, uri := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, uri = rest[:i], rest[i:]
		if uri[0] == '?' {
			uri = "/" + uri
		}
	}
	t, err := x.o.s.breaks.readAuthority(authority, 80)
	if err != nil {
		return x.refuse(&ev, deny(400, ReasonBadAuthority), authority)
	}
	return x.request(req, t, uri, &ev)
}

// cutScheme accepts http only: a request for https comes by CONNECT, where the
// client checks the certificate.
func cutScheme(target string) (string, bool) {
	const prefix = "http://"
	if len(target) <= len(prefix) || !strings.EqualFold(target[:len(prefix)], prefix) {
		return "", false
	}
	return target[len(prefix):], true
}

// bound handles a request on a connection whose target is known already, or,
// for transparent HTTP, comes from Host and is bound to the original
// destination.
func (x *session) bound(req *httpx.Request) bool {
	if x.o.s.breaks.absoluteLater(x, req) {
		return x.proxied(req)
	}
	ev := x.o.event(x.scheme)
	if req.Target[0] != '/' && !(req.Target == "*" && req.Method == "OPTIONS") {
		return x.refuse(&ev, deny(400, ReasonNotProxyRequest), "")
	}
	def := defaultPort(x.scheme)
	if x.o.dst != nil {
		return x.request(req, *x.o.dst, req.Target, &ev)
	}
	t, err := x.o.s.breaks.readAuthority(req.Host, def)
	if err != nil {
		return x.refuse(&ev, deny(400, ReasonBadAuthority), req.Host)
	}
	if t.port != x.c.orig.Port() {
		setTarget(&ev, t)
		return x.refuse(&ev, deny(421, ReasonHostMismatch), "")
	}
	return x.request(req, t, req.Target, &ev)
}

// request carries out one request for t.
func (x *session) request(req *httpx.Request, t target, uri string, ev *Event) bool {
	setTarget(ev, t)
	ev.Method = knownMethod(req.Method)
	q := &request{target: t, scheme: x.scheme, method: req.Method, length: req.Length, websocket: req.WebSocket}
	q.setTarget(uri)
	q.sent, q.later = uri, x.served
	x.served = true
	if ref := x.agree(req, q); ref != nil {
		return x.refuse(ev, ref, "")
	}
	x.take(req, q)
	defer q.over()
	r := x.o.s.rules.Load()
	resp, ref := x.o.exchange(x.c.ctx, r, q, false, ev)
	if ref != nil {
		keep := x.refuse(ev, ref, "")
		return x.settle(q) && keep && req.KeepAlive
	}
	if resp.stream != nil {
		x.upgrade(q, resp, ev)
		return false
	}
	ok := x.respond(req, q, resp, ev)
	ok = x.settle(q) && ok
	x.o.s.answered(ev, resp)
	return ok
}

// agree compares Host with the target, and refuses methods that reflect or
// tunnel.
func (x *session) agree(req *httpx.Request, q *request) *refusal {
	b := x.o.s.breaks
	if isTunnelOrTrace(q.method, b) {
		return deny(405, ReasonMethodRefused)
	}
	if req.Header.Has("Sec-WebSocket-Key") && !req.WebSocket {
		return deny(400, ReasonUpgrade)
	}
	if !req.HasHost {
		return nil // HTTP/1.0: there is nothing that could disagree
	}
	claimed, err := b.readAuthority(req.Host, defaultPort(q.scheme))
	if err != nil {
		return deny(400, ReasonBadAuthority)
	}
	if claimed == q.target || b.ignoresLater(q) {
		return nil
	}
	if !b.skip(hostAgreement) {
		return deny(421, ReasonHostMismatch)
	}
	q.claimed = claimed
	if b.skip(pinnedAddress) {
		q.target = claimed
		b.dialsHost(claimed)
	}
	return nil
}

// isTunnelOrTrace finds methods that open a tunnel or reflect a request with
// what was injected into it. Some servers read them in any case.
func isTunnelOrTrace(method string, b Breaks) bool {
	return strings.EqualFold(method, "CONNECT") ||
		(strings.EqualFold(method, "TRACE") || strings.EqualFold(method, "TRACK")) && !b.skip(traceRefusal)
}

// take moves header and body over into the proxy's own request.
func (x *session) take(req *httpx.Request, q *request) {
	x.q = q
	x.o.s.breaks.misframe(req, q)
	q.header = req.Header
	httpx.StripHopByHop(&q.header)
	q.header.Del("Host")
	if req.Length == 0 {
		x.body.Reset(x.br, 0, x.o.s.headLimits, false)
		return
	}
	x.body.Reset(x.br, req.Length, x.o.s.headLimits, false)
	q.body = &x.body
	if req.Continue {
		q.expect = func() error {
			x.bw.WriteString("HTTP/1.1 100 Continue\r\n\r\n")
			return x.bw.Flush()
		}
	}
}

// bodyRead says whether the request's body was read to its end and nobody
// reads it any more.
func (x *session) bodyRead() bool {
	if x.q != nil && x.q.sending != nil {
		select {
		case <-x.q.sending:
		default:
			return false
		}
	}
	return x.body.Done()
}

// settle waits until nobody reads the request's body any more. It is false
// when the body was not read to its end: what follows it is then no request.
func (x *session) settle(q *request) bool {
	if !x.bodyRead() && q.sending != nil {
		x.c.within(lingerTime)
		x.closeWrite()
	}
	if q.sending != nil {
		<-q.sending
	}
	return x.body.Done()
}

// respond writes a response. It returns whether the connection can go on.
func (x *session) respond(req *httpx.Request, q *request, resp *response, ev *Event) bool {
	ev.Status = resp.status
	keep := req.KeepAlive
	bodyless := resp.body == nil
	closeDelimited := resp.length == httpx.Chunked && req.Minor == 0 && !bodyless
	if closeDelimited {
		keep = false
	}
	w := x.bw
	httpx.WriteStatusLine(w, resp.status)
	httpx.WriteFields(w, resp.header)
	switch {
	case bodyless && (resp.length < 0 || resp.status == 204 || resp.status == 304):
	case closeDelimited:
	default:
		httpx.WriteLength(w, resp.length)
	}
	x.writePersistence(keep, req.Minor)
	w.WriteString("\r\n")
	head := w.Buffered()
	whole, err := x.relay(q, resp, !closeDelimited, ev)
	if errors.Is(err, errPin) {
		resp.refused = ReasonPin
		if ev.Down == 0 && w.Buffered() == head {
			w.Reset(x.rw) // nothing has gone out: the client can be told why
			x.writeRefusal(ev, deny(502, ReasonPin), false)
		}
	}
	resp.release(whole)
	if resp.masked != nil {
		ev.Redacted = *resp.masked
	}
	if err != nil {
		return false
	}
	if err := w.Flush(); err != nil {
		return false
	}
	return whole && keep
}

func (x *session) writePersistence(keep bool, minor int) {
	switch {
	case !keep:
		x.bw.WriteString("Connection: close\r\n")
	case minor == 0:
		x.bw.WriteString("Connection: keep-alive\r\n")
	}
}

// relay copies the body. It flushes whenever more has to be waited for. A body
// that breaks off is not ended properly, so that the client sees it, too.
func (x *session) relay(q *request, resp *response, framed bool, ev *Event) (whole bool, err error) {
	if q.body != nil {
		defer func() { ev.Up = max(0, q.length) }()
	}
	if resp.body == nil {
		return true, nil
	}
	var dst io.Writer = x.bw
	chunked := framed && resp.length == httpx.Chunked
	if chunked {
		dst = x.chunks
	}
	if resp.late != nil && resp.late() {
		if err := x.bw.Flush(); err != nil {
			return false, err
		}
	}
	box := copies.Get().(*[]byte)
	defer copies.Put(box)
	for {
		n, rerr := resp.body.Read(*box)
		if n > 0 {
			ev.Down += int64(n)
			if _, err := dst.Write((*box)[:n]); err != nil {
				return false, err
			}
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return false, rerr
		}
		if resp.ended == nil || !resp.ended() {
			if err := x.bw.Flush(); err != nil {
				return false, err
			}
		}
	}
	if chunked {
		var trailer httpx.Header
		if resp.trailer != nil {
			trailer = resp.trailer()
		}
		return true, x.chunks.Close(trailer)
	}
	return true, nil
}
