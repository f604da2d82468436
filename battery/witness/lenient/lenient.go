// Package lenient reads HTTP/1 requests as the most gullible server would.
//
// A control fires only where the world is more lenient than any real server: a
// request that smuggles another one past a strict proxy has to find, behind it, a
// server that takes the bait. So what RFC 9112 tells a server to refuse is taken
// here, always in the same way:
//
//   - Lines end at LF; CR before it is dropped. Empty lines before a request are
//     skipped. White space of any amount separates the parts of a request line,
//     and a missing version is HTTP/1.0.
//   - Field names and values lose all control characters and white space at both
//     ends, also before the colon. A line without a colon is ignored; one that
//     begins with white space continues the field before it.
//   - Of several Host fields the last counts. An absolute target's authority
//     counts more than any (RFC 9112 section 3.2.2).
//   - A body is chunked when any Transfer-Encoding contains "chunked", whatever
//     Content-Length says. Else the first Content-Length counts, by its leading
//     digits.
//   - A chunk's extension goes on to CR LF, over a bare LF.
//   - What is left over is the next request on the connection.
//
// Everything is bounded. Package lenient is pure but for the reader it is given.
package lenient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// Bounds on a request.
const (
	MaxLine   = 64 << 10
	MaxHeader = 256 << 10
	maxFields = 256
	maxBlank  = 16
)

// Errors of Read. ErrTooLarge comes with as much of the request as was read.
var (
	ErrTooLarge  = errors.New("request is too large")
	ErrMalformed = errors.New("not an HTTP request")
)

// Field is one header field as it was sent, trimmed.
type Field struct{ Name, Value string }

// Request is a request that was read.
type Request struct {
	Method string
	Target string // as it was sent
	Proto  string // "HTTP/1.1"
	Fields []Field
	Host   string // authority that counts
	URL    *url.URL
	Body   []byte
	// Trailer holds the fields behind a chunked body.
	Trailer []Field
	Close   bool // no further request is read from the connection
}

// Header returns the fields under their canonical names, Host left out.
func (r *Request) Header() http.Header { return header(r.Fields) }

func header(fields []Field) http.Header {
	h := http.Header{}
	for _, f := range fields {
		if name := textproto.CanonicalMIMEHeaderKey(f.Name); name != "Host" {
			h[name] = append(h[name], f.Value)
		}
	}
	return h
}

// HTTP returns the request in the form that handlers of package net/http take.
func (r *Request) HTTP() *http.Request {
	out := &http.Request{
		Method: r.Method, URL: r.URL, Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1, Header: r.Header(), Host: r.Host, RequestURI: r.Target,
		ContentLength: int64(len(r.Body)), Body: io.NopCloser(bytes.NewReader(r.Body)), Close: r.Close, Trailer: header(r.Trailer),
	}
	if r.Proto == "HTTP/1.0" {
		out.ProtoMinor = 0
	}
	return out
}

// Options of Read.
type Options struct {
	// MaxBody is how long the body may be, given what came before it.
	MaxBody func(*Request) int64
	// Continue is called before the body is read when the request asks for 100
	// (Continue).
	Continue func()
}

// Read reads one request. io.EOF means that there is none.
func Read(br *bufio.Reader, opt Options) (*Request, error) {
	r, err := readHead(br)
	if err != nil {
		return nil, err
	}
	if strings.EqualFold(r.Get("Expect"), "100-continue") && opt.Continue != nil {
		opt.Continue()
	}
	most := int64(1 << 20)
	if opt.MaxBody != nil {
		most = opt.MaxBody(r)
	}
	return r, r.readBody(br, most)
}

// Get returns the first field of a name, in any letter case.
func (r *Request) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

func readHead(br *bufio.Reader) (*Request, error) {
	first, err := firstLine(br)
	if err != nil {
		return nil, err
	}
	method, rest := word(first)
	r := &Request{Method: method, Proto: "HTTP/1.0", Target: rest}
	if i := strings.LastIndexAny(rest, blanks); i > 0 && strings.HasPrefix(strings.ToUpper(rest[i+1:]), "HTTP/") {
		r.Target, r.Proto = strings.Trim(rest[:i], blanks), strings.ToUpper(rest[i+1:])
	}
	if r.Target == "" {
		r.Target = "/"
	}
	if r.Fields, err = readFields(br); err != nil {
		return nil, err
	}
	r.address()
	connection := strings.ToLower(r.Get("Connection"))
	r.Close = strings.Contains(connection, "close") || r.Proto == "HTTP/1.0" && !strings.Contains(connection, "keep-alive")
	return r, nil
}

// address works out the target's URL and the authority that counts.
func (r *Request) address() {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, "Host") {
			r.Host = f.Value
		}
	}
	if r.Method == http.MethodConnect {
		r.URL = &url.URL{Host: r.Target}
		if r.Host == "" {
			r.Host = r.Target
		}
		return
	}
	rest := r.Target
	if i := strings.Index(rest, "://"); i > 0 && !strings.ContainsAny(rest[:i], "/?#") {
		authority := rest[i+3:]
		path := ""
		if j := strings.IndexAny(authority, "/?"); j >= 0 {
			authority, path = authority[:j], authority[j:]
		}
		r.Host = authority
		r.URL = parsePath(path)
		r.URL.Scheme, r.URL.Host = strings.ToLower(rest[:i]), authority
		return
	}
	r.URL = parsePath(rest)
}

// parsePath splits a target at its query and decodes what can be decoded.
func parsePath(s string) *url.URL {
	s, _, _ = strings.Cut(s, "#")
	path, query, _ := strings.Cut(s, "?")
	if path == "" {
		path = "/"
	}
	u := &url.URL{Path: path, RawQuery: query}
	if decoded, err := url.PathUnescape(path); err == nil {
		u.Path, u.RawPath = decoded, path
	}
	return u
}

// blanks separate the parts of a request line.
const blanks = " \t\v\f\r"

// word takes the first word off a line; a target with blanks in it stays whole.
func word(line string) (first, rest string) {
	line = strings.Trim(line, blanks)
	i := strings.IndexAny(line, blanks)
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.Trim(line[i:], blanks)
}

func firstLine(br *bufio.Reader) (string, error) {
	for range maxBlank {
		line, err := readLine(br)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(line) != "" {
			return line, nil
		}
	}
	return "", ErrMalformed
}

func readFields(br *bufio.Reader) ([]Field, error) {
	var out []Field
	for size := 0; ; {
		line, err := readLine(br)
		if err != nil {
			return nil, noEOF(err)
		}
		if line == "" {
			return out, nil
		}
		if size += len(line); size > MaxHeader || len(out) >= maxFields {
			return nil, fmt.Errorf("%w: header", ErrTooLarge)
		}
		if (line[0] == ' ' || line[0] == '\t') && len(out) > 0 {
			out[len(out)-1].Value = trim(out[len(out)-1].Value + " " + trim(line))
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if ok && trim(name) != "" {
			out = append(out, Field{trim(name), trim(value)})
		}
	}
}

// trim drops white space and control characters at both ends.
func trim(s string) string {
	return strings.TrimFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

// readLine reads up to LF and drops the line end.
func readLine(br *bufio.Reader) (string, error) {
	line, err := readUntil(br, "\n")
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}

// readUntil reads up to and with a line end of one's choice, which ends in LF.
func readUntil(br *bufio.Reader, end string) (string, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxLine:
			return "", fmt.Errorf("%w: line", ErrTooLarge)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		case bytes.HasSuffix(line, []byte(end)):
			return string(line), nil
		}
	}
}

// chunked reports whether the body is chunked.
func (r *Request) chunked() bool {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, "Transfer-Encoding") && strings.Contains(strings.ToLower(f.Value), "chunked") {
			return true
		}
	}
	return false
}

func (r *Request) readBody(br *bufio.Reader, most int64) error {
	if r.chunked() {
		return r.readChunks(br, most)
	}
	n := leading(r.Get("Content-Length"))
	if n <= 0 {
		return nil
	}
	cut := n > most
	if cut {
		n = most
	}
	var err error
	r.Body, err = readN(br, n)
	if err == nil && cut {
		err = fmt.Errorf("%w: body", ErrTooLarge)
	}
	return noEOF(err)
}

// leading reads the number at the start of a text, at most what a body could be
// long; 0 without one.
func leading(s string) int64 {
	s = strings.TrimLeft(s, "+ \t")
	end := 0
	for end < len(s) && end < 18 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (r *Request) readChunks(br *bufio.Reader, most int64) error {
	for {
		size, err := chunkSize(br)
		if err != nil {
			return noEOF(err)
		}
		if size == 0 {
			r.Trailer, err = readFields(br)
			return err
		}
		if size > most-int64(len(r.Body)) {
			part, err := readN(br, most-int64(len(r.Body)))
			r.Body = append(r.Body, part...)
			if err == nil {
				err = fmt.Errorf("%w: body", ErrTooLarge)
			}
			return noEOF(err)
		}
		part, err := readN(br, size)
		r.Body = append(r.Body, part...)
		if err != nil {
			return noEOF(err)
		}
		if _, err := readLine(br); err != nil { // the line end behind the chunk
			return noEOF(err)
		}
	}
}

// chunkSize reads a chunk's first line.
func chunkSize(br *bufio.Reader) (int64, error) {
	line, err := readUntil(br, "\n")
	if err != nil {
		return 0, err
	}
	if strings.Contains(line, ";") && !strings.HasSuffix(line, "\r\n") { // an extension goes on to CR LF
		rest, err := readUntil(br, "\r\n")
		if err != nil {
			return 0, err
		}
		line += rest
	}
	digits, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(trim(digits), 16, 62)
	if err != nil {
		return 0, fmt.Errorf("%w: chunk size %q", ErrMalformed, trim(digits))
	}
	return int64(n), nil
}

// readN reads n bytes; memory grows with what arrives, not with what was
// announced.
func readN(br *bufio.Reader, n int64) ([]byte, error) {
	var b bytes.Buffer
	got, err := io.CopyN(&b, br, n)
	if got < n && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

// noEOF makes the end of input in the middle of a request an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
