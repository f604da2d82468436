package httpx

import (
	"bufio"
	"strings"
)

// Response is a parsed response head.
type Response struct {
	Status    int
	Minor     int
	Header    Header
	Length    int64 // of the body, Chunked, or UntilClose
	KeepAlive bool  // the connection can serve another request after the body
}

// ResponseReader reads responses from one connection; it reuses its memory, so
// a Response is valid until the next call.
type ResponseReader struct {
	br      *bufio.Reader
	lim     Limits
	scratch []byte
	fields  Header
	resp    Response
}

// NewResponseReader reads from br under lim.
func NewResponseReader(br *bufio.Reader, lim Limits) *ResponseReader {
	return &ResponseReader{br: br, lim: lim}
}

// maxInterim is how many 1xx responses may precede the real one.
const maxInterim = 8

// Read returns the next final response head (or 101) to a request of the
// given method; other 1xx are dropped.
func (r *ResponseReader) Read(method string) (*Response, error) {
	for range maxInterim {
		head, err := readHead(r.br, r.lim, &r.scratch)
		if err != nil {
			return nil, err
		}
		resp, err := r.parse(head, method)
		if err != nil {
			return nil, err
		}
		if resp.Status >= 200 || resp.Status == 101 {
			return resp, nil
		}
	}
	return nil, refuse(502, ReasonStatusLine, "too many interim responses")
}

// ParseResponse parses a complete head, with its empty line.
func ParseResponse(head, method string, lim Limits) (*Response, error) {
	r := &ResponseReader{lim: lim}
	return r.parse(head, method)
}

func (r *ResponseReader) parse(head, method string) (*Response, error) {
	line, rest, ok := cutLine(head)
	if !ok {
		return nil, refuse(502, ReasonStatusLine, "status line that does not end in CRLF")
	}
	r.resp = Response{}
	resp := &r.resp
	if e := resp.parseLine(line); e != nil {
		return nil, e
	}
	fields, e := parseFields(rest, r.lim, r.fields[:0])
	r.fields = fields[:0]
	if e != nil {
		return nil, e
	}
	resp.Header = fields
	if e := resp.frame(method); e != nil {
		return nil, e
	}
	return resp, nil
}

func (p *Response) parseLine(line string) *Error {
	version, rest, _ := strings.Cut(line, " ")
	minor, ok := parseVersion(version)
	code, _, _ := strings.Cut(rest, " ")
	if !ok || len(code) != 3 || code[0] < '1' || code[0] > '9' || !isDigit(code[1]) || !isDigit(code[2]) || !IsFieldValue(line) {
		return refuse(502, ReasonStatusLine, "status line that is not VERSION CODE REASON")
	}
	p.Status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	p.Minor = minor
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// frame finds the body's length (RFC 9112, section 6.3).
func (p *Response) frame(method string) *Error {
	n, e := bodyLength(p.Header, p.Minor)
	if e != nil {
		e.Status = 502
		return e
	}
	switch {
	case method == "HEAD" || p.Status < 200 || p.Status == 204 || p.Status == 304:
		n = 0
	case n == noLength:
		n = UntilClose
	}
	p.Length = n
	closes := p.Header.HasToken("Connection", "close")
	keeps := p.Header.HasToken("Connection", "keep-alive")
	p.KeepAlive = n != UntilClose && !closes && (p.Minor > 0 || keeps)
	return nil
}
