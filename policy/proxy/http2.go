package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// Bounds of HTTP/2 on either side.
const (
	maxStreams   = 100
	maxFrameSize = 64 << 10
)

// handover is the listener of the server for HTTP/2: connections are handed to
// it after TLS was terminated and HTTP/2 agreed on.
type handover struct {
	conns chan net.Conn
	ctx   context.Context
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The end comes with the context.
func (h *handover) Close() error { return nil }

// Addr implements net.Listener.
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }

// originKey is where a stream's context holds its connection's origin.
type originKey struct{}

// startHTTP2 starts the server of intercepted HTTP/2 connections.
func (s *Server) startHTTP2() {
	s.h2 = &handover{make(chan net.Conn), s.ctx}
	var both http.Protocols
	both.SetHTTP1(true) // never agreed on here; without it the package offers nothing
	both.SetHTTP2(true)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if o, ok := r.Context().Value(originKey{}).(*origin); ok && r.ProtoMajor == 2 {
				o.serveStream(w, r)
			}
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if tc, ok := c.(*tls.Conn); ok {
				if cc, ok := tc.NetConn().(*conn); ok {
					return context.WithValue(ctx, originKey{}, cc.origin)
				}
			}
			return ctx
		},
		BaseContext:    func(net.Listener) context.Context { return s.ctx },
		IdleTimeout:    s.limits.idleTimeout(),
		MaxHeaderBytes: s.limits.HeadBytes,
		ErrorLog:       discardLog,
		Protocols:      &both,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrameSize},
	}
	go func() { _ = srv.Serve(s.h2) }()
}

// serveHTTP2 serves the streams of an intercepted HTTP/2 connection.
func (o *origin) serveHTTP2(tc *tls.Conn) {
	o.c.origin = o
	select {
	case o.s.h2.conns <- tc:
		<-o.c.ctx.Done() // it was closed, by whichever side
	case <-o.c.ctx.Done():
	}
}

// serveStream answers one stream.
func (o *origin) serveStream(w http.ResponseWriter, hr *http.Request) {
	ev := o.event("https")
	ev.Method = knownMethod(hr.Method)
	h := &stream2{o: o, w: w, ev: &ev}
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			panic(p) // our own
		} else if p != nil {
			o.s.failure(ReasonInternal, "stream")
			o.s.onPanic(p)
			panic(http.ErrAbortHandler) // ends the stream and no more
		}
	}()
	q := &request{target: *o.dst, scheme: "https", method: hr.Method}
	defer q.over()
	if ref := h.take(hr, q); ref != nil {
		h.refuse(ref)
		return
	}
	resp, ref := o.exchange(hr.Context(), o.s.rules.Load(), q, true, &ev)
	if ref != nil {
		h.refuse(ref)
		h.settle(q)
		return
	}
	h.respond(q, resp)
	h.settle(q)
	o.s.answered(&ev, resp)
}

// stream2 is one HTTP/2 stream of a client.
type stream2 struct {
	o  *origin
	w  http.ResponseWriter
	ev *Event
}

// take checks a stream's request as strictly as one in HTTP/1.1 and moves it
// into the proxy's own form.
func (h *stream2) take(hr *http.Request, q *request) *refusal {
	b := h.o.s.breaks
	if isTunnelOrTrace(hr.Method, b) {
		return deny(405, ReasonMethodRefused)
	}
	// Whatever its scheme says, the request came over TLS and goes on over TLS.
	if !httpx.IsToken(hr.Method) || hr.RequestURI == "" ||
		hr.RequestURI[0] != '/' && !(hr.RequestURI == "*" && hr.Method == "OPTIONS") || !httpx.IsTarget(hr.RequestURI) {
		return deny(400, httpx.ReasonRequestLine)
	}
	for _, name := range hr.Header["Host"] {
		if name != hr.Host && !b.skip(hostAgreement) {
			return deny(421, ReasonHostMismatch)
		}
	}
	claimed, err := parseAuthority(hr.Host, 443)
	switch {
	case err != nil:
		return deny(400, ReasonBadAuthority)
	case claimed != q.target && !b.skip(hostAgreement):
		return deny(421, ReasonHostMismatch)
	case claimed != q.target:
		q.claimed = claimed
		if b.skip(pinnedAddress) {
			q.target = claimed
		}
	}
	q.setTarget(hr.RequestURI)
	return h.takeHeader(hr, q)
}

// connectionFields may not stand in HTTP/2 (RFC 9113, section 8.2.2).
var connectionFields = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade"}

func (h *stream2) takeHeader(hr *http.Request, q *request) *refusal {
	for _, name := range connectionFields {
		if len(hr.Header[name]) > 0 {
			return deny(400, httpx.ReasonConnection)
		}
	}
	if len(hr.Header["Content-Length"]) > 1 {
		return deny(400, httpx.ReasonLengthConflict)
	}
	for name, values := range hr.Header {
		if name == "Host" {
			continue
		}
		if name == "Cookie" {
			values = []string{strings.Join(values, "; ")} // RFC 9113, section 8.2.3
		}
		for _, v := range values {
			if !httpx.IsToken(name) || !httpx.IsFieldValue(v) || httpx.MasksFraming(name) {
				return deny(400, httpx.ReasonHeader)
			}
			q.header.Add(name, v)
		}
	}
	if len(q.header) > h.o.s.limits.Headers {
		return deny(431, httpx.ReasonHeadTooLarge)
	}
	q.trailers = q.header.HasToken("TE", "trailers")
	httpx.StripHopByHop(&q.header)
	if q.length = hr.ContentLength; q.length < 0 {
		q.length = httpx.Chunked
	}
	if q.length != 0 {
		q.body = hr.Body
	}
	return nil
}

func (h *stream2) refuse(ref *refusal) {
	h.ev.Entry, h.ev.Point, h.ev.Status = ref.entry, ref.point, ref.status
	h.o.s.refused(h.ev, ref.reason)
	hd := h.w.Header()
	hd.Set(reasonField, ref.reason)
	hd.Set("Content-Type", "text/plain; charset=utf-8")
	hd.Set("Cache-Control", "no-store")
	h.w.WriteHeader(ref.status)
	_, _ = io.WriteString(h.w, refusalText(ref.status, ref.reason))
}

// settle waits until nobody reads the request's body: the stream's end, which
// follows, would take it away.
func (h *stream2) settle(q *request) {
	if q.sending == nil {
		return
	}
	if c, ok := q.body.(io.Closer); ok {
		_ = c.Close() // ends a sender that waits for more
	}
	<-q.sending
}

func (h *stream2) respond(q *request, resp *response) {
	h.ev.Status = resp.status
	hd := h.w.Header()
	for _, f := range resp.header {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		hd[name] = append(hd[name], f.Value)
	}
	if resp.length >= 0 && resp.status != 204 && resp.status != 304 {
		hd.Set("Content-Length", strconv.FormatInt(resp.length, 10))
	}
	h.w.WriteHeader(resp.status)
	whole, err := h.relay(resp)
	if errors.Is(err, errPin) {
		resp.refused = ReasonPin
	}
	if whole && resp.trailer != nil {
		for _, f := range resp.trailer() {
			hd.Add(http.TrailerPrefix+f.Name, f.Value)
		}
	}
	if q.body != nil {
		h.ev.Up = max(0, q.length)
	}
	resp.release(whole)
	if resp.masked != nil {
		h.ev.Redacted = *resp.masked
	}
	if !whole {
		h.settle(q)
		h.o.s.answered(h.ev, resp)
		panic(http.ErrAbortHandler) // a body that breaks off is not ended properly
	}
}

func (h *stream2) relay(resp *response) (whole bool, err error) {
	if resp.body == nil {
		return true, nil
	}
	box := copies.Get().(*[]byte)
	defer copies.Put(box)
	flush := http.NewResponseController(h.w)
	read := resp.body.Read
	if resp.slow {
		read = headFirst(flush, resp.body)
	}
	if resp.late != nil && resp.late() {
		if err := flush.Flush(); err != nil {
			return false, err
		}
	}
	for {
		n, err := read(*box)
		if n > 0 {
			h.ev.Down += int64(n)
			if _, werr := h.w.Write((*box)[:n]); werr != nil {
				return false, werr
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if resp.ended == nil || !resp.ended() {
			if err := flush.Flush(); err != nil {
				return false, err
			}
		}
	}
}

// headPatience is how long the head of a response waits for a body of known length, of
// which HTTP/2 does not tell whether something has come: together they are one write.
const headPatience = 2 * time.Millisecond

// headFirst reads body, and sends the head alone when the first read takes long. Nothing
// else is written while it reads.
func headFirst(flush *http.ResponseController, body io.Reader) func([]byte) (int, error) {
	var once sync.Once
	return func(b []byte) (n int, err error) {
		done := func() {}
		once.Do(func() {
			var mu sync.Mutex
			over := false
			timer := time.AfterFunc(headPatience, func() {
				mu.Lock()
				defer mu.Unlock()
				if !over {
					_ = flush.Flush()
				}
			})
			done = func() {
				timer.Stop()
				mu.Lock()
				over = true
				mu.Unlock()
			}
		})
		defer done()
		return body.Read(b)
	}
}

// h2link is the HTTP/2 connections to the outside of one client connection: one for
// as long as it takes all streams.
type h2link struct {
	mu         sync.Mutex // held while dialling: streams share one connection
	conns      []*h2conn  // the newest last; those before it are older or were full
	generation uint64     // of plain
	plain      bool       // the upstream speaks HTTP/1.1 only
}

// h2conn is one of them.
type h2conn struct {
	*http.ClientConn
	addr       netip.AddrPort
	generation uint64
	shared     bool         // other requests may use it, too
	streams    atomic.Int32 // that are under way for the client
}

func (l *h2link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// reserve returns a connection with room for a stream, which is kept free for the
// caller; nil when there is none.
func (l *h2link) reserve(generation uint64) *h2conn {
	for _, c := range slices.Backward(l.conns) {
		if c.shared && c.generation == generation && c.Reserve() == nil {
			c.streams.Add(1)
			return c
		}
	}
	return nil
}

// tidy closes connections that carry no stream and take none, and what there is of
// idle ones beyond maxIdle: a server decides how many streams it takes and when it
// has had enough, and not how many connections are kept for it. The library's count
// of streams does not serve here: it holds those that were reset until the server
// answers.
func (l *h2link) tidy(generation uint64) {
	idle := 0
	kept := l.conns[:0]
	for _, c := range slices.Backward(l.conns) {
		if c.streams.Load() == 0 {
			if idle++; idle > maxIdle || !c.shared || c.generation != generation || c.Available() == 0 {
				_ = c.Close()
				continue
			}
		}
		kept = append(kept, c)
	}
	clear(l.conns[len(kept):])
	slices.Reverse(kept)
	l.conns = kept
}

// roundTrip2 sends a request over HTTP/2 when the upstream speaks it, else over
// HTTP/1.1.
func (o *origin) roundTrip2(ctx context.Context, r *rules, q *request) (*response, *refusal) {
	cc, ref := o.clientConn(r, q)
	if ref != nil {
		return nil, ref
	}
	if cc == nil {
		return o.roundTrip1(ctx, r, q)
	}
	hr, err := toHTTP(ctx, q)
	if err != nil {
		cc.Release()
		cc.streams.Add(-1)
		return nil, &refusal{status: 400, reason: httpx.ReasonRequestLine, err: err}
	}
	hresp, err := cc.RoundTrip(hr)
	if err != nil {
		cc.streams.Add(-1)
		return nil, &refusal{status: 502, reason: ReasonUpstreamClosed, err: err}
	}
	resp, ref := fromHTTP(q, hresp)
	if ref != nil {
		cc.streams.Add(-1)
		return nil, ref
	}
	resp.release = func(bool) { _ = hresp.Body.Close(); cc.streams.Add(-1) }
	return resp, nil
}

// clientConn returns a connection to the outside with a stream reserved, nil when it
// cannot be HTTP/2.
func (o *origin) clientConn(r *rules, q *request) (*h2conn, *refusal) {
	l := &o.h2
	l.mu.Lock()
	defer l.mu.Unlock()
	shared := q.claimed.host.IsZero()
	if shared && l.plain && l.generation == r.generation {
		return nil, nil
	}
	if shared {
		if c := l.reserve(r.generation); c != nil {
			q.dialled = c.addr.String()
			return c, nil
		}
	}
	l.tidy(r.generation)
	// The connection outlives this stream.
	tc, _, addr, ref := o.connectTLS(o.ctx, r, q.target, []string{"h2", "http/1.1"})
	if ref != nil {
		return nil, ref
	}
	q.dialled = addr.String()
	if l.plain, l.generation = tc.ConnectionState().NegotiatedProtocol != "h2", r.generation; l.plain {
		lk := &link{Conn: tc, raw: tc.NetConn(), target: q.target, scheme: "https", addr: addr, generation: r.generation}
		o.equip(lk)
		o.h1.give(lk)
		return nil, nil
	}
	cc, err := o.s.newClientConn(o.ctx, tc, q.target)
	if err == nil {
		err = cc.Reserve()
	}
	if err != nil {
		_ = tc.Close()
		return nil, &refusal{status: 502, reason: ReasonUpstreamResponse, err: err}
	}
	c := &h2conn{ClientConn: cc, addr: addr, generation: r.generation, shared: shared}
	c.streams.Store(1)
	l.conns = append(l.conns, c)
	return c, nil
}

// newClientConn speaks HTTP/2 on a connection that is there already.
func (s *Server) newClientConn(ctx context.Context, tc *tls.Conn, t target) (*http.ClientConn, error) {
	var h2 http.Protocols
	h2.SetHTTP2(true)
	tr := &http.Transport{
		DialTLSContext:         func(context.Context, string, string) (net.Conn, error) { return tc, nil },
		DisableCompression:     true,
		MaxResponseHeaderBytes: int64(s.limits.HeadBytes),
		Protocols:              &h2,
	}
	return tr.NewClientConn(ctx, "https", t.String())
}

func toHTTP(ctx context.Context, q *request) (*http.Request, error) {
	hr, err := http.NewRequestWithContext(ctx, q.method, "https://"+q.hostField()+"/", nil)
	if err != nil {
		return nil, err
	}
	hr.URL.Opaque = "//" + q.hostField() + q.requestURI()
	if q.path == "*" {
		hr.URL.Opaque = "*"
	}
	hr.Host = q.hostField()
	hr.Header = make(http.Header, len(q.header))
	for _, f := range q.header {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		hr.Header[name] = append(hr.Header[name], f.Value)
	}
	if q.trailers {
		hr.Header.Set("TE", "trailers")
	}
	if _, ok := hr.Header["User-Agent"]; !ok {
		hr.Header["User-Agent"] = []string{""} // none, instead of the library's
	}
	if q.body != nil {
		hr.Body = io.NopCloser(q.body)
		if hr.ContentLength = q.length; q.length == httpx.Chunked {
			hr.ContentLength = -1
		}
	}
	return hr, nil
}

func fromHTTP(q *request, hr *http.Response) (*response, *refusal) {
	resp := &response{status: hr.StatusCode, length: hr.ContentLength}
	for name, values := range hr.Header {
		for _, v := range values {
			if !httpx.IsToken(name) || !httpx.IsFieldValue(v) {
				_ = hr.Body.Close()
				return nil, deny(502, ReasonUpstreamResponse)
			}
			resp.header.Add(name, v)
		}
	}
	switch {
	case q.method == "HEAD":
		resp.length = headLength(resp.header)
	case hr.ContentLength != 0:
		resp.body = hr.Body
		resp.slow = true
		if hr.ContentLength < 0 {
			resp.length = httpx.Chunked
			resp.late, resp.slow = func() bool { return true }, false
		}
	}
	resp.trailer = func() httpx.Header {
		var h httpx.Header
		for name, values := range hr.Trailer {
			for _, v := range values {
				if httpx.IsToken(name) && httpx.IsFieldValue(v) {
					h.Add(name, v)
				}
			}
		}
		return h
	}
	resp.release = func(bool) { _ = hr.Body.Close() }
	return resp, nil
}
