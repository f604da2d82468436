package proxy

import (
	"context"
	"io"
	"net"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// request is a request in the middle of the proxy: parsed, bound to its
// target, without anything that concerned the client's connection.
type request struct {
	target
	scheme    string // http or https
	method    string
	path      string // as it is forwarded, "/…" or "*"
	query     string // raw, without "?"
	hasQuery  bool   //
	claimed   target // what Host or :authority said; equal to target
	header    httpx.Header
	body      io.Reader // nil without one
	length    int64     // of body, or httpx.Chunked
	framing   framing   // empty but in a seeded break
	websocket bool
	trailers  bool   // TE: trailers, for HTTP/2
	dialled   string // address and port, for the record
	expect    func() error
	done      []func()      // called when the request is over, however it ended
	sent      string        // the target as it was sent
	later     bool          // not the first of its connection
	sending   chan struct{} // closed when body is no longer read; nil if nobody reads it
}

// over gives back what the request took.
func (q *request) over() {
	for _, f := range q.done {
		f()
	}
	q.done = nil
}

// requestURI is path and query as they stand in a request line.
func (q *request) requestURI() string {
	if !q.hasQuery {
		return q.path
	}
	return q.path + "?" + q.query
}

// question is the request as the policy sees it.
func (q *request) question() policy.Request {
	return policy.Request{
		Scheme: q.scheme, Host: q.host, Port: q.port,
		Method: q.method, Path: q.path, Upgrade: q.websocket,
	}
}

// setTarget splits an origin-form target. Dot segments are resolved before
// anything looks at the path, so that what is checked is what is sent.
func (q *request) setTarget(uri string) {
	q.path, q.query, q.hasQuery = strings.Cut(uri, "?")
	q.path = removeDotSegments(q.path)
}

// response is what came back for a request, on its way to the client.
type response struct {
	status  int
	header  httpx.Header
	length  int64     // of body, or httpx.Chunked; for HEAD what it would be, or -1
	body    io.Reader // nil without one
	ended   func() bool
	late    func() bool // nothing of body has come yet, so that the head goes out alone; nil: it waits for the body
	slow    bool        // that cannot be known: the head goes out alone when nothing has come within headPatience
	trailer func() httpx.Header
	// release is called once, when the body was relayed or given up; whole says
	// that it was read to its end.
	release func(whole bool)
	stream  net.Conn // after 101: the connection itself
	masked  *int64   // occurrences masked so far
	refused string   // a reason: the proxy itself answered, with a refusal
}

// removeDotSegments is RFC 3986, section 5.2.4, on a path whose dots may be
// percent-encoded. It leaves everything else as it is.
func removeDotSegments(path string) string {
	if strings.IndexByte(path, '.') < 0 && !strings.Contains(path, "%2") {
		return path
	}
	segments := strings.Split(path, "/")
	out := segments[:0:0]
	for i, seg := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ReplaceAll(seg, "%2e", "."), "%2E", ".") {
		case ".":
			if last {
				out = append(out, "")
			}
		case "..":
			if len(out) > 1 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, seg)
		}
	}
	return strings.Join(out, "/")
}

// origin is one client connection's connections to the outside. Nothing is
// shared between clients: what one of them does to a connection, it does to
// itself.
type origin struct {
	s   *Server
	c   *conn
	ctx context.Context
	dst *target // transparent and tunnels: the only target there may be
	h1  h1pool
	h2  h2link
}

func (o *origin) close() {
	o.h1.close()
	o.h2.close()
}
