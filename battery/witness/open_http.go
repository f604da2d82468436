package witness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/witness/gullible"
	"github.com/wallproof/wallproof/battery/witness/lenient"
)

// maxForwarded bounds a request's body through the open proxy; a git push goes
// this way.
const maxForwarded = 32 << 20

// tunnel is what a CONNECT or a SOCKS request has opened; nil stands for the
// proxy itself.
type tunnel struct {
	to     target
	secure bool   // TLS was intercepted
	sni    string // that the client asked for, "" for none
	first  net.Conn
}

// take returns the connection that was opened with the tunnel, once, or a new
// one.
func (o *Open) upstream(ctx context.Context, t *tunnel) (net.Conn, error) {
	if c := t.first; c != nil {
		t.first = nil
		return c, nil
	}
	c, err := o.connect(ctx, t.to)
	if err != nil || !t.secure {
		return c, err
	}
	return secure(ctx, c, t.sni)
}

// secure is the client's side of TLS towards the world. Certificates are not
// checked: nothing is protected here.
func secure(ctx context.Context, c net.Conn, sni string) (net.Conn, error) {
	tc := tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return tc, nil
}

// serveOne serves HTTP/1, inside a tunnel or to the proxy itself, until the
// client ends it.
func (o *Open) serveOne(c *conn, t *tunnel) {
	defer t.close()
	for range maxRequests {
		_ = c.SetDeadline(time.Now().Add(keepAliveTime))
		release := func() {}
		req, err := lenient.Read(c.br, lenient.Options{
			MaxBody: func(*lenient.Request) int64 {
				if got := o.w.reserve(o.w.ctx, maxForwarded/8); got != nil {
					release = got
					return maxForwarded
				}
				return 0
			},
			Continue: func() { _, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n") },
		})
		if req == nil {
			if !errors.Is(err, io.EOF) {
				_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			}
			release()
			return
		}
		again := err == nil && o.handle(c, req, t)
		release()
		if !again {
			return
		}
	}
}

func (t *tunnel) close() {
	if t != nil && t.first != nil {
		_ = t.first.Close()
	}
}

// handle answers one request; false when the connection can take no other.
func (o *Open) handle(c *conn, req *lenient.Request, t *tunnel) bool {
	if req.Method == http.MethodConnect {
		return o.handleConnect(c, req)
	}
	up, to, err := o.route(o.w.ctx, req, t)
	switch {
	case err != nil:
		return o.fail(c, req, err)
	case to == nil:
		return o.ownPage(c, req)
	}
	defer up.Close()
	o.forge(req)
	if err := write(up, req); err != nil {
		return o.fail(c, req, err)
	}
	return o.relayAnswer(c, up, req)
}

// route finds where a request goes and connects: by an absolute target first,
// whatever tunnel it came through, else to the tunnel's end. to is nil when it is
// for the proxy itself.
func (o *Open) route(ctx context.Context, req *lenient.Request, t *tunnel) (up net.Conn, to *target, err error) {
	if req.URL.Host != "" {
		port := uint16(80)
		if req.URL.Scheme == "https" {
			port = 443
		}
		found, err := o.resolve(ctx, gullible.Parse(req.URL.Host), port)
		if err != nil {
			return nil, nil, err
		}
		up, err := o.connect(ctx, found)
		if err == nil && req.URL.Scheme == "https" {
			up, err = secure(ctx, up, found.host.Name)
		}
		return up, &found, err
	}
	if t == nil {
		return nil, nil, nil
	}
	up, err = o.upstream(ctx, t)
	return up, &t.to, err
}

// forge makes the request what the world gets: placeholders swapped for secrets,
// credentials injected for what the Host field says.
func (o *Open) forge(req *lenient.Request) {
	named := req.Host
	if h := lastHost(req); h != "" {
		named = h
	}
	req.Target = o.swap(req.Target)
	req.Body = []byte(o.swap(string(req.Body)))
	for i, f := range req.Fields {
		req.Fields[i].Value = o.swapField(f.Value)
	}
	for _, i := range o.injections(gullible.Parse(named).String()) {
		req.Fields = slices.DeleteFunc(req.Fields, func(f lenient.Field) bool { return strings.EqualFold(f.Name, i.Header) })
		req.Fields = append(req.Fields, lenient.Field{Name: i.Header, Value: i.Value})
	}
}

func lastHost(req *lenient.Request) string {
	host := ""
	for _, f := range req.Fields {
		if strings.EqualFold(f.Name, "Host") {
			host = f.Value
		}
	}
	return host
}

// swap puts secrets in the place of placeholders.
func (o *Open) swap(s string) string {
	for mark, secret := range o.cfg.Replace {
		if mark != "" {
			s = strings.ReplaceAll(s, mark, secret)
		}
	}
	return s
}

// swapField is swap for a field's value, also inside Basic credentials.
func (o *Open) swapField(v string) string {
	if scheme, enc, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "basic") {
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(enc)); err == nil {
			return scheme + " " + base64.StdEncoding.EncodeToString([]byte(o.swap(string(raw))))
		}
	}
	return o.swap(v)
}

// write sends a request on: in origin form, with all its Host fields, its body
// with a length.
func write(up net.Conn, req *lenient.Request) error {
	_ = up.SetDeadline(time.Now().Add(requestTime))
	var b bytes.Buffer
	target := req.Target
	if req.URL.Host != "" {
		target = req.URL.EscapedPath()
		if req.URL.RawPath != "" {
			target = req.URL.RawPath
		}
		if req.URL.RawQuery != "" {
			target += "?" + req.URL.RawQuery
		}
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", req.Method, target)
	if lastHost(req) == "" {
		fmt.Fprintf(&b, "Host: %s\r\n", req.Host)
	}
	for _, f := range req.Fields {
		switch strings.ToLower(f.Name) {
		case "content-length", "transfer-encoding", "expect", "proxy-connection", "proxy-authorization":
			continue
		}
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	if len(req.Body) > 0 || req.Method == http.MethodPost || req.Method == http.MethodPut {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(req.Body))
	}
	b.WriteString("\r\n")
	b.Write(req.Body)
	_, err := up.Write(b.Bytes())
	return err
}

// relayAnswer passes the world's answer on; false when the connection is used up.
func (o *Open) relayAnswer(c *conn, up net.Conn, req *lenient.Request) bool {
	br := bufio.NewReader(up)
	resp, err := http.ReadResponse(br, &http.Request{Method: req.Method})
	if err != nil {
		return o.fail(c, req, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if resp.Write(c) == nil {
			_ = up.SetDeadline(time.Now().Add(lifeTime))
			join(c, buffered{up, br})
		}
		return false
	}
	resp.Close = req.Close
	return resp.Write(c) == nil && !req.Close
}

// fail tells the client that the world could not be reached.
func (o *Open) fail(c *conn, req *lenient.Request, err error) bool {
	text := strings.Map(headerSafe, err.Error()) + "\n"
	_, werr := fmt.Fprintf(c, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	return werr == nil && !req.Close
}

// ownPage answers a request to the proxy itself: the dashboard of a platform that
// hides nothing, with the credentials that it injects.
func (o *Open) ownPage(c *conn, req *lenient.Request) bool {
	resp := lenient.NewResponse(c, c.br, req)
	x := o.w.exchange(resp, req.HTTP().WithContext(o.w.ctx), c.ledger)
	x.body = req.Body
	x.search()
	x.record()
	x.plain(http.StatusOK, o.dashboard())
	again, err := resp.Finish()
	return again && err == nil
}

func (o *Open) dashboard() string {
	var b strings.Builder
	b.WriteString("open proxy\n")
	for _, i := range o.cfg.Inject {
		fmt.Fprintf(&b, "inject %s %s: %s\n", i.Host, i.Header, i.Value)
	}
	for mark, secret := range o.cfg.Replace {
		fmt.Fprintf(&b, "replace %s by %s\n", mark, secret)
	}
	return b.String()
}

// serveTwo serves HTTP/2, inside a tunnel or to the proxy itself.
func (o *Open) serveTwo(c *conn, t *tunnel) {
	defer t.close()
	serveTwo(c, func(rw http.ResponseWriter, r *http.Request) { o.handleTwo(rw, r, c, t) })
}

// handleTwo answers one HTTP/2 request. The world gets it as HTTP/1.
func (o *Open) handleTwo(rw http.ResponseWriter, r *http.Request, c *conn, t *tunnel) {
	if r.Method == http.MethodConnect {
		o.connectTwo(rw, r, c)
		return
	}
	release := o.w.reserve(r.Context(), maxForwarded/8)
	if release == nil {
		http.Error(rw, errBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	defer release()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForwarded))
	if err != nil {
		return // the client has gone
	}
	req := &lenient.Request{Method: r.Method, Target: r.URL.RequestURI(), Proto: "HTTP/1.1", Host: r.Host, URL: r.URL, Body: body, Close: true}
	for name, values := range r.Header {
		for _, v := range values {
			req.Fields = append(req.Fields, lenient.Field{Name: name, Value: v})
		}
	}
	if t == nil { // to the proxy itself: the authority says where to
		u := *r.URL
		u.Scheme, u.Host = "http", r.Host
		req.URL = &u
	}
	up, _, err := o.route(r.Context(), req, t)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer up.Close()
	o.forge(req)
	if err := write(up, req); err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	copyAnswer(rw, up, r.Method)
}

func copyAnswer(rw http.ResponseWriter, up net.Conn, method string) {
	resp, err := http.ReadResponse(bufio.NewReader(up), &http.Request{Method: method})
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		switch name {
		case "Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive":
		default:
			rw.Header()[name] = values
		}
	}
	rw.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(rw, resp.Body) // a client that has gone is no concern
}

// connectTwo is CONNECT over HTTP/2 (RFC 9113 section 8.5). The answer carries
// the proof once the world's end has been reached.
func (o *Open) connectTwo(rw http.ResponseWriter, r *http.Request, c *conn) {
	to, err := o.resolve(r.Context(), gullible.Parse(r.Host), 443)
	if err == nil {
		var up net.Conn
		if up, err = o.connect(r.Context(), to); err == nil {
			defer up.Close()
			x := o.w.exchange(rw, r, c.ledger)
			x.search()
			if x.proof != "" {
				rw.Header().Set(headerWitness, x.proof)
			}
			rw.WriteHeader(http.StatusOK)
			if http.NewResponseController(rw).Flush() != nil {
				return
			}
			_ = up.SetDeadline(time.Now().Add(lifeTime))
			go func() { _, _ = io.Copy(up, r.Body); closeWrite(up) }()
			_, _ = io.Copy(flushing{rw}, up)
			return
		}
	}
	http.Error(rw, err.Error(), http.StatusBadGateway)
}

// flushing flushes after each write.
type flushing struct{ http.ResponseWriter }

// Write writes and flushes.
func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}
