package httpx

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

var testLimits = Limits{HeadBytes: 64 << 10, Headers: 128}

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		name, head string
		want       Request
	}{
		{"simple", "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", Request{Method: "GET", Target: "/a?b", Minor: 1, Host: "x", HasHost: true, KeepAlive: true}},
		{"1.0", "GET / HTTP/1.0\r\n\r\n", Request{Method: "GET", Target: "/"}},
		{"1.0 keep", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Request{Method: "GET", Target: "/", KeepAlive: true}},
		{"close", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Request{Method: "GET", Target: "/", Minor: 1, Host: "x", HasHost: true}},
		{"length", "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\nExpect: 100-Continue\r\n\r\n", Request{Method: "PUT", Target: "/", Minor: 1, Host: "x", HasHost: true, Length: 7, KeepAlive: true, Continue: true}},
		{"chunked", "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n", Request{Method: "PUT", Target: "/", Minor: 1, Host: "x", HasHost: true, Length: Chunked, KeepAlive: true}},
		{"websocket", "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: k\r\n\r\n", Request{Method: "GET", Target: "/", Minor: 1, Host: "x", HasHost: true, KeepAlive: true, WebSocket: true}},
	} {
		got, err := ParseRequest(tc.head, testLimits)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got.Header = nil
		if got.Method != tc.want.Method || got.Target != tc.want.Target || got.Minor != tc.want.Minor || got.Host != tc.want.Host ||
			got.Length != tc.want.Length || got.KeepAlive != tc.want.KeepAlive || got.Continue != tc.want.Continue || got.WebSocket != tc.want.WebSocket {
			t.Errorf("%s: got %+v want %+v", tc.name, *got, tc.want)
		}
	}
}

func TestResponses(t *testing.T) {
	for _, tc := range []struct {
		head, method string
		status       int
		length       int64
		keep         bool
		reason       string
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "GET", 200, 3, true, ""},
		{"HTTP/1.1 200\r\n\r\n", "GET", 200, UntilClose, false, ""},
		{"HTTP/1.1 204 No Content\r\n\r\n", "GET", 204, 0, true, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD", 200, 0, true, ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", 200, Chunked, true, ""},
		{"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", "GET", 200, 3, false, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", "GET", 0, 0, false, ReasonLengthConflict},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", 0, 0, false, ReasonLengthConflict},
		{"HTTP/1.1 20 OK\r\n\r\n", "GET", 0, 0, false, ReasonStatusLine},
		{"HTTP/2 200 OK\r\n\r\n", "GET", 0, 0, false, ReasonStatusLine},
		{"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "GET", 0, 0, false, ReasonObsFold},
	} {
		got, err := ParseResponse(tc.head, tc.method, testLimits)
		if tc.reason != "" {
			if he, ok := err.(*Error); !ok || he.Reason != tc.reason {
				t.Errorf("%q: %v, want %s", tc.head, err, tc.reason)
			}
			continue
		}
		if err != nil || got.Status != tc.status || got.Length != tc.length || got.KeepAlive != tc.keep {
			t.Errorf("%q: %+v %v", tc.head, got, err)
		}
	}
}

func TestStripHopByHop(t *testing.T) {
	h := Header{{"Host", "x"}, {"Connection", "close, X-Mine"}, {"x-mine", "1"}, {"Keep-Alive", "1"}, {"Proxy-Authorization", "secret"},
		{"TE", "trailers"}, {"Trailer", "X"}, {"Upgrade", "h2c"}, {"HTTP2-Settings", "AAA"}, {"Content-Length", "1"}, {"X-Yours", "2"}}
	StripHopByHop(&h)
	if len(h) != 2 || h[0].Name != "Host" || h[1].Name != "X-Yours" {
		t.Errorf("left: %v", h)
	}
}

func readBody(s string, length int64, lenient bool) (string, *Body, error) {
	var b Body
	b.Reset(bufio.NewReaderSize(strings.NewReader(s), 512), length, testLimits, lenient)
	got, err := io.ReadAll(&b)
	return string(got), &b, err
}

func TestChunkedBodies(t *testing.T) {
	good := "5\r\nhello\r\n1\r\n!\r\n0\r\nX-Trail: yes\r\n\r\n"
	got, b, err := readBody(good, Chunked, false)
	if err != nil || got != "hello!" || b.Trailer().Get("x-trail") != "yes" || !b.Done() {
		t.Errorf("%q %v %v", got, b.Trailer(), err)
	}
	for name, s := range map[string]string{
		"extension":          "5;a=b\r\nhello\r\n0\r\n\r\n",
		"bare LF":            "5\nhello\r\n0\r\n\r\n",
		"no CRLF after data": "5\r\nhelloX0\r\n\r\n",
		"negative":           "-5\r\nhello\r\n0\r\n\r\n",
		"prefix":             "0x5\r\nhello\r\n0\r\n\r\n",
		"space":              "5 \r\nhello\r\n0\r\n\r\n",
		"huge":               "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
		"empty size":         "\r\nhello\r\n0\r\n\r\n",
		"cut":                "5\r\nhel",
		"no end":             "5\r\nhello\r\n",
		"bad trailer":        "0\r\nX Trail: a\r\n\r\n",
		"Host in trailer":    "0\r\nHost: a\r\n\r\n",
		"CL in trailer":      "0\r\nContent-Length: 1\r\n\r\n",
		"long line":          strings.Repeat("0", 600) + "\r\n",
	} {
		if _, b, err := readBody(s, Chunked, false); err == nil || b.Done() {
			t.Errorf("%s: accepted", name)
		}
	}
	if got, _, err := readBody("5;a=b\r\nhello\r\n0\r\n\r\n", Chunked, true); err != nil || got != "hello" {
		t.Errorf("a client skips extensions: %q %v", got, err)
	}
}

func TestCountedBodyThatIsCut(t *testing.T) {
	if _, b, err := readBody("hel", 5, false); err != io.ErrUnexpectedEOF || b.Done() {
		t.Errorf("%v", err)
	}
	if got, b, err := readBody("helloGET /", 5, false); err != nil || got != "hello" || !b.Done() {
		t.Errorf("%q %v", got, err)
	}
}

// FuzzRequestHead: what is accepted means the same to net/http, and written
// anew it is read as the same.
func FuzzRequestHead(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST http://a.example:8080/x?y HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 3\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		req, err := NewRequestReader(bufio.NewReader(bytes.NewReader(in)), testLimits).Read()
		if err != nil {
			if req != nil {
				t.Fatal("a refusal leaves a request")
			}
			return
		}
		std, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err == nil && std.Method != "CONNECT" {
			if std.Method != req.Method || std.ContentLength != req.Length && !(req.Length == Chunked && std.ContentLength == -1) {
				t.Fatalf("read in two ways: %+v and %+v", req, std)
			}
		}
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		WriteRequestLine(w, req.Method, req.Target)
		WriteFields(w, req.Header)
		_, _ = w.WriteString("\r\n")
		_ = w.Flush()
		if req.Minor != 1 {
			return
		}
		again, err := ParseRequest(out.String(), Limits{HeadBytes: 1 << 20, Headers: 128})
		if err != nil || again.Target != req.Target || again.Host != req.Host || again.Length != req.Length || len(again.Header) != len(req.Header) {
			t.Fatalf("not the same when read again: %v\n%q", err, out.String())
		}
	})
}

// FuzzChunkedBody: what is accepted is what net/http reads, and what follows the
// body is untouched.
func FuzzChunkedBody(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\nrest"))
	f.Add([]byte("1;x\r\na\r\n0\r\nA: b\r\n\r\n"))
	f.Add([]byte("A\r\n0123456789\r\n00\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var b Body
		br := bufio.NewReaderSize(bytes.NewReader(in), 4096)
		b.Reset(br, Chunked, testLimits, false)
		got, err := io.ReadAll(&b)
		if err != nil {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(in))))
		if err != nil {
			t.Fatal(err)
		}
		std, err := io.ReadAll(req.Body)
		if err == nil && !bytes.Equal(std, got) {
			t.Fatalf("read in two ways: %q and %q", got, std)
		}
	})
}
