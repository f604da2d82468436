package lenient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name, in                   string
		method, target, host, body string
		path, query                string
		close                      bool
	}{
		{"ordinary", "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", "POST", "/a?b", "x", "hi", "/a", "b", false},
		{"bare LF and blank lines", "\n\r\nGET / HTTP/1.1\nHost: x\n\n", "GET", "/", "x", "", "/", "", false},
		{"no version", "GET /a\r\n\r\n", "GET", "/a", "", "", "/a", "", true},
		{"no target", "GET\r\n\r\n", "GET", "/", "", "", "/", "", true},
		{"odd white space", " GET \t /a b \v HTTP/1.1 \r\nHost : x \r\n\r\n", "GET", "/a b", "x", "", "/a b", "", false},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: x\r\n\r\n", "GET", "/", "x", "", "/", "", true},
		{"keep-alive", "GET / HTTP/1.0\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n", "GET", "/", "x", "", "/", "", false},
		{"last host", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET", "/", "b", "", "/", "", false},
		{"absolute", "GET http://c:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "http://c:81/p?q", "c:81", "", "/p", "q", false},
		{"absolute without path", "GET http://c HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "http://c", "c", "", "/", "", false},
		{"connect", "CONNECT a:1 HTTP/1.1\r\nHost: b\r\n\r\n", "CONNECT", "a:1", "b", "", "", "", false},
		{"escaped path", "GET /%2e%2e/%zz HTTP/1.1\r\nHost: x\r\n\r\n", "GET", "/%2e%2e/%zz", "x", "", "/%2e%2e/%zz", "", false},
		{"decoded path", "GET /%41 HTTP/1.1\r\nHost: x\r\n\r\n", "GET", "/%41", "x", "", "/A", "", false},
		{"first length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi", "POST", "/", "x", "h", "/", "", false},
		{"length with a sign", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +2, 5\r\n\r\nhi", "POST", "/", "x", "hi", "/", "", false},
		{"chunked over length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST", "/", "x", "hi", "/", "", false},
		{"disguised chunked", "POST / HTTP/1.1\r\nHost: x\r\n\x0bTransfer-Encoding\x00: \x0bidentity, ChunKed\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "POST", "/", "x", "hi", "/", "", false},
		{"chunk extension", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a\nb\nc\r\nhi\r\n0\r\n\r\n", "POST", "/", "x", "hi", "/", "", false},
		{"folded field", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "GET", "/", "x", "", "/", "", false},
		{"line without a colon", "GET / HTTP/1.1\r\nnonsense\r\nHost: x\r\n\r\n", "GET", "/", "x", "", "/", "", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Read(bufio.NewReader(strings.NewReader(tc.in)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Method != tc.method || r.Target != tc.target || r.Host != tc.host || string(r.Body) != tc.body || r.Close != tc.close {
				t.Errorf("got %+v body %q", r, r.Body)
			}
			if r.URL.Path != tc.path || r.URL.RawQuery != tc.query {
				t.Errorf("path %q query %q", r.URL.Path, r.URL.RawQuery)
			}
		})
	}
}

func TestTrailers(t *testing.T) {
	r, err := Read(bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\r\n\r\n")), Options{})
	if err != nil || len(r.Trailer) != 1 || r.HTTP().Trailer.Get("X-A") != "b" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name, in string
		want     error
		kept     string // of the body
	}{
		{"nothing", "", io.EOF, ""},
		{"blank lines only", strings.Repeat("\n", 50), ErrMalformed, ""},
		{"cut in the first line", "GET /", io.ErrUnexpectedEOF, ""},
		{"cut in the header", "GET / HTTP/1.1\r\nA: b\r\n", io.ErrUnexpectedEOF, ""},
		{"cut in the body", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhi", io.ErrUnexpectedEOF, "hi"},
		{"body too long", "GET / HTTP/1.1\r\nContent-Length: 50\r\n\r\n" + strings.Repeat("x", 50), ErrTooLarge, "xxxxxxxxxx"},
		{"chunks too long", "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n0\r\n\r\n", ErrTooLarge, "1234567812"},
		{"line too long", "GET /" + strings.Repeat("x", MaxLine+1) + "\r\n\r\n", ErrTooLarge, ""},
		{"too many fields", "GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", maxFields+1) + "\r\n", ErrTooLarge, ""},
		{"no chunk size", "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ErrMalformed, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Read(bufio.NewReader(strings.NewReader(tc.in)), Options{MaxBody: func(*Request) int64 { return 10 }})
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if r != nil && string(r.Body) != tc.kept || r == nil && tc.kept != "" {
				t.Errorf("kept %+v", r)
			}
		})
	}
}

// respond runs a handler against a response and returns what it wrote.
func respond(t *testing.T, req *Request, handler func(*Response)) (string, bool) {
	t.Helper()
	mine, theirs := net.Pipe()
	out := make(chan string)
	go func() {
		b, err := io.ReadAll(mine)
		if err != nil {
			t.Error(err)
		}
		out <- string(b)
	}()
	w := NewResponse(theirs, bufio.NewReader(theirs), req)
	handler(w)
	again, err := w.Finish()
	if err != nil {
		t.Error(err)
	}
	_ = theirs.Close()
	return <-out, again
}

func TestResponse(t *testing.T) {
	get, head := &Request{Method: "GET"}, &Request{Method: "HEAD", Close: true}
	tests := []struct {
		name    string
		req     *Request
		handler func(*Response)
		want    string
		again   bool
	}{
		{"empty", get, func(*Response) {}, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
		{"body", get, func(w *Response) { w.Header().Set("X-A", "b"); w.WriteHeader(201); _, _ = w.Write([]byte("hi")) },
			"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi", true},
		{"head", head, func(w *Response) { _, _ = w.Write([]byte("hi")) }, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false},
		{"no content", get, func(w *Response) { w.WriteHeader(204) }, "HTTP/1.1 204 No Content\r\n\r\n", true},
		{"chunks", get, func(w *Response) { _, _ = w.Write([]byte("a")); w.Flush(); _, _ = w.Write([]byte("bc")) },
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", true},
		{"trailer", get, func(w *Response) {
			w.Header().Set("Trailer", "X-T")
			_, _ = w.Write([]byte("a"))
			w.Header().Set("X-T", "v")
		}, "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: v\r\n\r\n", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got, again := respond(t, tc.req, tc.handler); got != tc.want || again != tc.again {
				t.Errorf("wrote %q, reusable %t; want %q", got, again, tc.want)
			}
		})
	}
}

// Whatever net/http reads as a request reads the same here, and nothing that is
// read exceeds its bounds.
func FuzzRead(f *testing.F) {
	f.Add([]byte("POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"))
	f.Add([]byte("GET http://c/p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nhi\r\n0\r\nT: v\r\n\r\n"))
	f.Add([]byte("CONNECT a:1 HTTP/1.1\r\nHost: b\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.0\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1000
		r, err := Read(bufio.NewReader(bytes.NewReader(b)), Options{MaxBody: func(*Request) int64 { return most }})
		if r != nil && int64(len(r.Body)) > most {
			t.Fatalf("body of %d bytes", len(r.Body))
		}
		std, stdErr := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
		if stdErr != nil {
			return
		}
		body, bodyErr := io.ReadAll(std.Body)
		if bodyErr != nil || len(body) > most || std.Method == "PRI" || strings.TrimSpace(std.RequestURI) != std.RequestURI || std.RequestURI == "" {
			return
		}
		if err != nil {
			t.Fatalf("refused what net/http takes: %v", err)
		}
		if r.Method != std.Method || r.Target != std.RequestURI || !bytes.Equal(r.Body, body) {
			t.Fatalf("read %q %q %q, net/http %q %q %q", r.Method, r.Target, r.Body, std.Method, std.RequestURI, body)
		}
		if std.URL.Host == "" && std.Method != http.MethodConnect && r.Host != std.Host {
			t.Fatalf("host %q, net/http %q", r.Host, std.Host)
		}
	})
}
