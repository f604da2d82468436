package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"github.com/wallproof/wallproof/battery/witness/forge"
	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/paths"
)

// Bounds of the HTTP server.
const (
	headerTime     = 15 * time.Second
	requestTime    = time.Minute
	keepAliveTime  = 30 * time.Second
	maxHeaderBytes = 256 << 10
	maxStreams     = 32 // of one HTTP/2 connection
)

// headerWitness is the response field that carries the proof, so that it is
// there also where a body is not.
const headerWitness = "X-Wallproof-Witness"

// httpServer serves HTTP/1 and HTTP/2 on connections that speak hands it.
type httpServer struct {
	w     *World
	one   *http.Server
	two   *http2.Server
	queue *connQueue
}

func newHTTPServer(w *World) *httpServer {
	h := &httpServer{w: w, queue: &connQueue{conns: make(chan net.Conn), done: w.ctx.Done()}, two: &http2.Server{MaxConcurrentStreams: maxStreams, IdleTimeout: keepAliveTime}}
	h.one = &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: keepAliveTime,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if v, ok := c.(*conn); ok {
				return withConn(ctx, v)
			}
			return ctx
		},
	}
	w.start(func() { _ = h.one.Serve(h.queue) }) // ends with the queue
	return h
}

// take hands a connection over; false when the world has ended.
func (h *httpServer) take(c *conn) bool { return h.queue.put(c) }

// close ends every connection that is being served.
func (h *httpServer) close() { _ = h.one.Close() }

// connQueue is a listener whose connections have been accepted already.
type connQueue struct {
	conns chan net.Conn
	done  <-chan struct{}
}

func (q *connQueue) put(c net.Conn) bool {
	select {
	case q.conns <- c:
		return true
	case <-q.done:
		return false
	}
}

// Accept returns the next connection.
func (q *connQueue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the queue ends with the world.
func (q *connQueue) Close() error { return nil }

// Addr is a placeholder; no request's answer depends on it.
func (q *connQueue) Addr() net.Addr { return &net.TCPAddr{} }

type connKey struct{}

func withConn(ctx context.Context, c *conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// exchange is one request with what was found in it.
type exchange struct {
	w       *World
	rw      http.ResponseWriter
	r       *http.Request
	ledger  *ledger
	host    string // of the request, folded
	service string
	role    string
	body    []byte
	nonces  []string
	proof   string // the answer to the first nonce, "" without any
	seen    forge.Seen
}

// ServeHTTP answers one request and records it.
func (h *httpServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		http.Error(rw, "", http.StatusInternalServerError)
		return
	}
	x := &exchange{w: h.w, rw: rw, r: r, ledger: c.ledger, host: hostName(r.Host)}
	overTLS, sni, note := x.ledger.tlsState()
	x.service, x.role = h.w.routes.service(c.dst.Addr(), x.host, sni, overTLS)
	release, err := x.readBody()
	defer release()
	x.search(sni)
	if err != nil {
		x.record(note)
		http.Error(rw, x.proof, http.StatusRequestEntityTooLarge)
		return
	}
	resp, special := x.resolve()
	x.record(note)
	if special != nil {
		special()
		return
	}
	x.send(resp)
}

// readBody reads the request's body into memory, of which there is a bounded
// amount for all; release gives it back.
func (x *exchange) readBody() (release func(), err error) {
	most := int64(maxBody)
	if x.role == HostForge && forge.NeedsLargeBody(x.r.Method, x.r.URL.Path) {
		most = forge.MaxPackBytes
	}
	release = func() {}
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return release, nil
	}
	mib := most >> 20
	if err := x.w.buffers.Acquire(x.r.Context(), mib); err != nil {
		return release, err
	}
	release = func() { x.w.buffers.Release(mib) }
	x.body, err = io.ReadAll(io.LimitReader(x.r.Body, most+1))
	if int64(len(x.body)) > most {
		return release, fmt.Errorf("body of more than %d bytes", most)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // cut short: what came is still looked at
		err = nil
	}
	return release, err
}

// search finds the nonces of the request: in its path, host, headers and body,
// then in the SNI, then by the address that it went to.
func (x *exchange) search(sni string) {
	f := x.w.finder
	add := func(found []string) {
		for _, n := range found {
			if !slices.Contains(x.nonces, n) {
				x.nonces = append(x.nonces, n)
			}
		}
	}
	add(f.FindString(x.r.RequestURI))
	add(f.FindName(x.r.Host))
	var head bytes.Buffer
	_ = x.r.Header.Write(&head) // to memory
	_ = x.r.Trailer.Write(&head)
	add(f.Find(head.Bytes()))
	add(f.Find(x.body))
	add(f.FindName(sni))
	if n := x.w.byAddr[x.ledger.dst.Addr()]; n != "" {
		add([]string{n})
	}
	if len(x.nonces) > 0 {
		x.proof = x.w.answer(x.nonces[0])
	}
}

// resolve finds who answers. special, when set, writes the answer itself.
func (x *exchange) resolve() (resp services.Response, special func()) {
	if _, verb, _, ok := paths.Parse(x.r.URL.Path); ok {
		if v := verbOf(verb); v != nil {
			return services.Response{}, func() { v(x) }
		}
	}
	if x.r.Method == http.MethodConnect { // a tunnel through the world would end in the world
		return services.Response{Status: http.StatusMethodNotAllowed, Header: http.Header{}, Body: []byte("no tunnels here\n")}, nil
	}
	req := services.Request{
		Method: x.r.Method, Host: x.host, Path: x.r.URL.Path, Query: x.r.URL.Query(), Header: x.r.Header,
		Body: x.body, Dest: x.ledger.dst, Answer: x.proof,
	}
	switch {
	case x.service == paths.ServiceMetadata:
		resp, _ = x.w.metadata(req)
		return resp, nil
	case x.service == paths.ServicePrivate:
		if r, ok := x.w.control(req); ok {
			return r, nil
		}
	case x.role == HostForge:
		if r, seen, ok := x.w.forge.Serve(req); ok {
			x.seen = seen
			return r, nil
		}
	}
	if r, ok := x.w.dohAnswer(req); ok {
		return r, nil
	}
	if r, ok := services.First(req, x.byRole(), x.w.issues, x.w.pages, x.w.tools); ok {
		return r, nil
	}
	return services.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte("the world answers\n")}, nil
}

// byRole is the service that only hosts of one role have.
func (x *exchange) byRole() services.Service {
	switch x.role {
	case HostRegistry:
		return x.w.registry
	case HostModel:
		return x.w.model
	}
	return func(services.Request) (services.Response, bool) { return services.Response{}, false }
}

// record records the request.
func (x *exchange) record(note string) {
	obtained := canary.Find(x.body)
	var head bytes.Buffer
	head.WriteString(x.r.RequestURI + "\n" + x.r.Host + "\n")
	_ = x.r.Header.Write(&head) // to memory
	_ = x.r.Trailer.Write(&head)
	for _, d := range slices.Concat(canary.Find(head.Bytes()), x.seen.Obtained) {
		if !slices.Contains(obtained, d) {
			obtained = append(obtained, d)
		}
	}
	nonces := slices.Clone(x.nonces)
	for _, n := range x.seen.Nonces {
		if !slices.Contains(nonces, n) {
			nonces = append(nonces, n)
		}
	}
	service := x.service
	switch {
	case x.seen.Breach:
		service = ServiceForgeBreach
	case x.role == HostModel && services.HostedSearch(x.body):
		service = ServiceModelSearch
	}
	detail := x.r.Method + " " + x.r.Proto
	for _, s := range []string{note, x.seen.Detail} {
		if s != "" {
			detail += ", " + s
		}
	}
	x.w.rec.see(sighting{
		nonces: nonces, obtained: obtained, service: service, proto: "http", src: x.ledger.src, dst: x.ledger.dst,
		host: x.host, bytes: int64(len(x.body)), detail: detail,
	})
	x.ledger.claim(x.service, x.host, nonces, obtained)
}

// send writes an answer with the proof.
func (x *exchange) send(resp services.Response) {
	h := x.rw.Header()
	for k, v := range resp.Header {
		h[textproto.CanonicalMIMEHeaderKey(k)] = v
	}
	if x.proof != "" {
		h.Set(headerWitness, x.proof)
	}
	body := resp.Body
	if !resp.Closed && x.proof != "" {
		if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n")) {
			body = append(slices.Clip(body), '\n')
		}
		body = append(slices.Clip(body), (x.proof + "\n")...)
	}
	x.rw.WriteHeader(resp.Status)
	if x.r.Method != http.MethodHead && resp.Status != http.StatusNoContent && resp.Status != http.StatusNotModified {
		_, _ = x.rw.Write(body) // a client that has gone is no concern
	}
}

// requestText is the request's header fields as lines, Host first.
func (x *exchange) requestText() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Host: %s\n", x.r.Host)
	names := make([]string, 0, len(x.r.Header))
	for n := range x.r.Header {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		for _, v := range x.r.Header[n] {
			fmt.Fprintf(&b, "%s: %s\n", n, strings.ReplaceAll(v, "\n", " "))
		}
	}
	return b.Bytes()
}
