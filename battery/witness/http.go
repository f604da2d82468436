package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/witness/forge"
	"github.com/wallproof/wallproof/battery/witness/lenient"
	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/paths"
)

// Bounds of the HTTP server.
const (
	requestTime    = time.Minute
	keepAliveTime  = 30 * time.Second
	drainTime      = time.Second // for what follows a body that was too large
	maxHeaderBytes = 256 << 10
	maxStreams     = 32  // of one HTTP/2 connection
	maxRequests    = 500 // over one HTTP/1 connection
)

// headerWitness is the response field that carries the proof, so that it is
// there also where a body is not.
const headerWitness = "X-Wallproof-Witness"

// handleTwo answers one HTTP/2 request.
func (w *World) handleTwo(rw http.ResponseWriter, r *http.Request, c *conn) {
	x := w.exchange(rw, r, c.ledger)
	release := func() {}
	if r.Body != nil && r.Body != http.NoBody && r.Method != http.MethodConnect {
		most := x.mostBody()
		if release = w.reserve(r.Context(), most); release == nil {
			x.answerTo(errBusy)
			return
		}
		var err error
		if x.body, err = io.ReadAll(io.LimitReader(r.Body, most)); err != nil && len(x.body) == 0 {
			x.answerTo(err)
			release()
			return
		}
	}
	defer release()
	x.answerTo(nil)
}

var errBusy = errors.New("too much is being received at once")

// serveOne serves HTTP/1 on a connection until it ends or is handed over.
func (w *World) serveOne(c *conn) {
	for range maxRequests {
		_ = c.SetDeadline(time.Now().Add(keepAliveTime))
		if !w.serveNext(c) {
			return
		}
	}
}

// serveNext reads and answers one request; false when it was the last.
func (w *World) serveNext(c *conn) bool {
	release := func() {}
	defer func() { release() }()
	req, err := lenient.Read(c.br, lenient.Options{
		MaxBody: func(r *lenient.Request) int64 {
			x := w.exchange(nil, r.HTTP(), c.ledger)
			most := x.mostBody()
			if got := w.reserve(w.ctx, most); got != nil {
				release = got
				return most
			}
			return 0
		},
		Continue: func() { _, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") },
	})
	if req == nil {
		if !errors.Is(err, io.EOF) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
		return false
	}
	if err != nil {
		req.Close = true
	}
	resp := lenient.NewResponse(c, c.br, req)
	x := w.exchange(resp, req.HTTP().WithContext(w.ctx), c.ledger)
	x.body = req.Body
	if errors.Is(err, lenient.ErrTooLarge) {
		x.answerTo(err)
	} else { // a body cut short is answered as far as it came
		x.answerTo(nil)
	}
	again, finishErr := resp.Finish()
	if errors.Is(err, lenient.ErrTooLarge) && finishErr == nil { // a reset would take the answer away
		_ = c.SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, c, maxBody)
	}
	return again && finishErr == nil && !resp.Hijacked()
}

// reserve takes room for a body from what all requests together may hold in
// memory, and returns what gives it back; nil when there was none in time.
func (w *World) reserve(ctx context.Context, size int64) func() {
	mib := max(size>>20, 1)
	ctx, cancel := context.WithTimeout(ctx, idleTime)
	defer cancel()
	if w.buffers.Acquire(ctx, mib) != nil {
		return nil
	}
	return func() { w.buffers.Release(mib) }
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
	sni     string
	note    string
	body    []byte
	nonces  []string
	proof   string // the answer to the first nonce, "" without any
	seen    forge.Seen
}

// exchange begins one.
func (w *World) exchange(rw http.ResponseWriter, r *http.Request, l *ledger) *exchange {
	x := &exchange{w: w, rw: rw, r: r, ledger: l, host: hostName(r.Host)}
	overTLS, sni, note := l.tlsState()
	x.sni, x.note = sni, note
	x.service, x.role = w.routes.service(l.dst.Addr(), x.host, sni, overTLS)
	if l.fixed != "" {
		x.service, x.role = l.fixed, HostPlain
	}
	return x
}

// mostBody is how long the request's body may be.
func (x *exchange) mostBody() int64 {
	if x.role == HostForge && forge.NeedsLargeBody(x.r.Method, x.r.URL.Path) {
		return forge.MaxPackBytes
	}
	return maxBody
}

// answerTo records the request and answers it; err is why its body is missing.
func (x *exchange) answerTo(err error) {
	x.search()
	if err != nil {
		x.record()
		x.plain(http.StatusRequestEntityTooLarge, err.Error()+"\n")
		return
	}
	resp, special := x.resolve()
	x.record()
	if special != nil {
		special()
		return
	}
	x.send(resp)
}

// search finds the nonces of the request: in its path, host, headers and body,
// then in the SNI, then by the address that it went to.
func (x *exchange) search() {
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
	add(f.FindName(x.sni))
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
	if x.r.Method == http.MethodTrace {
		return services.Response{}, x.echo
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
	case x.role == HostPlatform:
		if r, breach, detail, ok := x.w.fabric.Serve(req); ok {
			x.seen = forge.Seen{Breach: breach != "", Detail: breach + detail}
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
func (x *exchange) record() {
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
	if x.role == HostModel && x.w.cfg.Model.converses(x.body) {
		x.ledger.claim(x.service, x.host, nonces, obtained)
		x.w.rec.accounted(nonces, x.ledger.dst)
		nonces = nil
	}
	service := x.service
	switch {
	case x.r.Method == http.MethodTrace && service == paths.ServiceAllowed:
		service = ServiceTrace
	case x.seen.Breach && x.role == HostPlatform:
		service = ServicePlatformBreach
	case x.seen.Breach:
		service = ServiceForgeBreach
	case x.role == HostModel && services.HostedSearch(x.body):
		service = ServiceModelSearch
	}
	detail := x.r.Method + " " + x.r.Proto
	for _, s := range []string{x.note, x.seen.Detail} {
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
