package httpx

import (
	"bufio"
	"strings"
)

// Chunked is the length of a body that is sent in chunks.
const Chunked int64 = -1

// UntilClose is the length of a response body that ends with the connection.
const UntilClose int64 = -2

// Request is a parsed request head.
type Request struct {
	Method    string
	Target    string // request target as it was sent: visible ASCII
	Minor     int    // HTTP/1.Minor
	Header    Header // as sent, framing fields included
	Host      string // the one Host field; "" only in HTTP/1.0
	HasHost   bool
	Length    int64 // of the body, or Chunked
	KeepAlive bool  // the client wants to go on
	Continue  bool  // Expect: 100-continue
	WebSocket bool  // a well-formed WebSocket upgrade (RFC 6455, section 4.1)
}

// RequestReader reads requests from one connection; it reuses its memory, so
// a Request is valid until the next call.
type RequestReader struct {
	br      *bufio.Reader
	lim     Limits
	scratch []byte
	fields  Header
	req     Request
	leniency
}

// NewRequestReader reads from br under lim.
func NewRequestReader(br *bufio.Reader, lim Limits) *RequestReader {
	return &RequestReader{br: br, lim: lim}
}

// Read returns the next request head. io.EOF means a clean end between two
// requests. An *Error is a refusal, after which the connection must be closed.
func (r *RequestReader) Read() (*Request, error) {
	head, err := readHead(r.br, r.lim, &r.scratch)
	if err != nil {
		return nil, err
	}
	return r.parse(head)
}

// ParseRequest parses a complete head, with its empty line.
func ParseRequest(head string, lim Limits) (*Request, error) {
	r := &RequestReader{lim: lim}
	return r.parse(head)
}

func (r *RequestReader) parse(head string) (*Request, error) {
	line, rest, ok := cutLine(head)
	if !ok {
		return nil, refuse(400, ReasonRequestLine, "request line that does not end in CRLF")
	}
	r.req = Request{}
	req := &r.req
	if e := req.parseLine(line); e != nil {
		return nil, e
	}
	fields, e := parseFields(r.careless(rest), r.lim, r.fields[:0])
	r.fields = fields[:0]
	if e != nil {
		return nil, e
	}
	req.Header = fields
	if e := r.check(req); e != nil {
		return nil, e
	}
	return req, nil
}

func (r *RequestReader) check(q *Request) *Error {
	if r.lax() {
		if e := r.laxChecks(q); e != nil {
			return e
		}
	} else {
		if e := q.checkHost(); e != nil {
			return e
		}
		if e := q.checkLength(); e != nil {
			return e
		}
	}
	if e := q.checkExpect(); e != nil {
		return e
	}
	return q.checkConnection()
}

func (q *Request) parseLine(line string) *Error {
	method, rest, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || !IsToken(method) || !IsTarget(target) {
		return refuse(400, ReasonRequestLine, "request line that is not METHOD TARGET VERSION")
	}
	minor, ok := parseVersion(version)
	if !ok {
		return refuse(505, ReasonVersion, "version that is neither HTTP/1.0 nor HTTP/1.1")
	}
	q.Method, q.Target, q.Minor = method, target, minor
	return nil
}

// IsTarget says whether s may stand as a request target: visible ASCII without
// a fragment.
func IsTarget(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return s != ""
}

func (q *Request) checkHost() *Error {
	switch n := q.Header.Count("Host"); {
	case n > 1:
		return refuse(400, ReasonHostCount, "more than one Host field")
	case n == 0 && q.Minor > 0:
		return refuse(400, ReasonHostMissing, "HTTP/1.1 request without Host")
	case n == 1:
		q.Host, q.HasHost = q.Header.Get("Host"), true
	}
	return nil
}

func (q *Request) checkLength() *Error {
	n, e := bodyLength(q.Header, q.Minor)
	if e != nil {
		return e
	}
	if n == noLength {
		n = 0
	}
	if q.Method == "CONNECT" && n != 0 {
		return refuse(400, ReasonContentLength, "CONNECT with a body")
	}
	q.Length = n
	return nil
}

// noLength: neither Content-Length nor Transfer-Encoding is there.
const noLength int64 = -3

// maxLengthDigits keeps Content-Length within int64.
const maxLengthDigits = 18

// bodyLength applies RFC 9112, section 6.3 without its leniences.
func bodyLength(h Header, minor int) (int64, *Error) {
	cl, te := h.Count("Content-Length"), h.Count("Transfer-Encoding")
	switch {
	case cl > 0 && te > 0:
		return 0, refuse(400, ReasonLengthConflict, "Content-Length together with Transfer-Encoding")
	case cl > 1:
		return 0, refuse(400, ReasonLengthConflict, "more than one Content-Length")
	case te > 1, te == 1 && (minor == 0 || !strings.EqualFold(h.Get("Transfer-Encoding"), "chunked")):
		return 0, refuse(400, ReasonTransferCoding, "transfer coding other than one chunked")
	case te == 1:
		return Chunked, nil
	case cl == 1:
		return parseLength(h.Get("Content-Length"))
	}
	return noLength, nil
}

func parseLength(s string) (int64, *Error) {
	if s == "" || len(s) > maxLengthDigits {
		return 0, refuse(400, ReasonContentLength, "Content-Length that is not a small decimal number")
	}
	var n int64
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, refuse(400, ReasonContentLength, "Content-Length that is not a small decimal number")
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, nil
}

func (q *Request) checkExpect() *Error {
	switch {
	case !q.Header.Has("Expect"):
	case q.Header.Count("Expect") == 1 && strings.EqualFold(q.Header.Get("Expect"), "100-continue"):
		q.Continue = q.Minor > 0
	default:
		return refuse(417, ReasonExpect, "expectation other than 100-continue")
	}
	return nil
}

// neverNominated are the fields that a Connection field may not declare
// hop-by-hop: dropping them would change what the request is.
var neverNominated = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "authorization": true,
	"cookie": true, "content-type": true, "content-encoding": true,
}

func (q *Request) checkConnection() *Error {
	var bad, closes, keeps, upgrades bool
	for _, field := range [...]string{"Connection", "Proxy-Connection"} {
		q.Header.Tokens(field, func(t string) bool {
			bad = bad || neverNominated[t] || !IsToken(t)
			closes = closes || t == "close"
			keeps = keeps || t == "keep-alive"
			upgrades = upgrades || t == "upgrade"
			return true
		})
	}
	if bad {
		return refuse(400, ReasonConnection, "Connection names an end-to-end field")
	}
	q.KeepAlive = !closes && (q.Minor > 0 || keeps)
	q.WebSocket = upgrades && q.isWebSocket()
	return nil
}

func (q *Request) isWebSocket() bool {
	return q.Method == "GET" && q.Minor == 1 && q.Length == 0 && q.Header.Count("Upgrade") == 1 &&
		strings.EqualFold(q.Header.Get("Upgrade"), "websocket") &&
		q.Header.Count("Sec-WebSocket-Key") == 1 && q.Header.Get("Sec-WebSocket-Version") == "13"
}

// StripHopByHop removes what concerns one connection only (RFC 9110, section
// 7.6.1), the fields that Connection names, and the body's framing. A field that says
// what the body is stays although Connection names it, which it must not: without it
// the body would be read as what it is not.
func StripHopByHop(h *Header) {
	var named []string
	for _, field := range [...]string{"Connection", "Proxy-Connection"} {
		h.Tokens(field, func(t string) bool {
			if t != "close" && t != "keep-alive" {
				named = append(named, t)
			}
			return true
		})
	}
	h.Filter(func(f Field) bool {
		if isHopByHop(f.Name) {
			return false
		}
		for _, n := range named {
			if strings.EqualFold(n, f.Name) && !DescribesBody(n) {
				return false
			}
		}
		return true
	})
}

// DescribesBody says whether a field tells how a body is coded or what part of
// something it is.
func DescribesBody(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "im", "delta-base", "grpc-encoding", "connect-content-encoding":
		return true
	}
	return strings.HasPrefix(name, "content-")
}

func isHopByHop(name string) bool {
	switch len(name) {
	case 2:
		return strings.EqualFold(name, "TE")
	case 6:
		return strings.EqualFold(name, "Expect")
	case 7:
		return strings.EqualFold(name, "Trailer") || strings.EqualFold(name, "Upgrade")
	case 10:
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case 14:
		return strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "HTTP2-Settings")
	case 16:
		return strings.EqualFold(name, "Proxy-Connection")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	case 18:
		return strings.EqualFold(name, "Proxy-Authenticate")
	case 19:
		return strings.EqualFold(name, "Proxy-Authorization")
	}
	return false
}

// ContentLength reads the one Content-Length of a header; an error without
// exactly one.
func ContentLength(h Header) (int64, error) {
	if h.Count("Content-Length") != 1 {
		return 0, refuse(400, ReasonContentLength, "not one Content-Length")
	}
	n, e := parseLength(h.Get("Content-Length"))
	if e != nil {
		return 0, e
	}
	return n, nil
}
