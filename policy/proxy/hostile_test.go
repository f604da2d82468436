package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// counted counts the connections that are open.
type counted struct {
	net.Listener
	open, all *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.open.Add(1)
		l.all.Add(1)
		c = &countedConn{Conn: c, open: l.open}
	}
	return c, err
}

type countedConn struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// A server that takes one stream a connection, whatever it does with it, does not
// make the proxy collect connections for one client.
func TestServerOfOneStreamAConnection(t *testing.T) {
	const rounds = 60
	w := newWorld(t)
	var open, all atomic.Int64
	step := make(chan struct{}, 2)
	w.name("token.example", otherIP)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				_ = http.NewResponseController(rw).Flush()
				<-step
			}
		}),
		ErrorLog: log.New(io.Discard, "", 0), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{w.certificate("token.example")}},
	}
	go srv.ServeTLS(counted{w.listen(otherIP + ":443"), &open, &all}, "", "")
	t.Cleanup(func() { _ = srv.Close() })
	p := w.proxy(basicPolicy, withToken)
	client := p.client(true)
	ask := func() *http.Response {
		resp, err := client.Get("https://token.example/wait")
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		return resp
	}
	end := func(resp *http.Response) {
		step <- struct{}{}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	last := ask()
	for range rounds {
		next := ask() // while last has its connection for itself
		end(last)
		last = next
	}
	end(last)
	if n := open.Load(); n > maxIdle+2 {
		t.Errorf("%d connections are open to a host with at most two requests at once", n)
	}
	if n := all.Load(); n > rounds/2 {
		t.Errorf("%d connections were made for %d requests, two at once", n, rounds+1)
	}
}

// A response that declares how its body is coded a matter of the connection is read
// as what it is all the same.
func TestConnectionDoesNotHideWhatABodyIs(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("you sent " + testValue))
	_ = z.Close()
	part := "you sent " + testValue[:12]
	for _, tc := range []struct {
		name, fields, body string
		status             int
	}{
		{"coding", "Connection: Content-Encoding\r\nContent-Encoding: gzip\r\n", packed.String(), 200},
		{"coding in Proxy-Connection", "Proxy-Connection: keep-alive, content-encoding\r\nContent-Encoding: gzip\r\n", packed.String(), 200},
		{"range", "Connection: Content-Range\r\nContent-Range: bytes 0-20/60\r\n", part, 502},
		{"delta", "Connection: IM\r\nIM: gzip\r\n", packed.String(), 502},
		{"messages", "Connection: Grpc-Encoding\r\nGrpc-Encoding: gzip\r\n", packed.String(), 502},
		{"another field", "Connection: X-Other\r\nX-Other: 1\r\n", "plain", 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.speaker("plain.example", allowedIP, func(int) string {
				return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", tc.fields, len(tc.body), tc.body)
			})
			p := w.proxy(basicPolicy, withToken)
			status, _, body := p.get(p.client(false), "http://plain.example/")
			if status != tc.status || strings.Contains(body, testValue) || strings.Contains(body, part) || strings.Contains(body, "\x1f\x8b") {
				t.Errorf("%d %q", status, body)
			}
			if tc.status == 200 && tc.body != "plain" && body != "you sent "+redact.Masked(len(testValue)) {
				t.Errorf("%q", body)
			}
		})
	}
}

// A head whose body is long in coming goes out before it: a client of a stream may
// wait for it before it says what the server waits for.
func TestHeadGoesOutBeforeItsBody(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, length := range []string{"", "4"} {
			t.Run(fmt.Sprintf("h2=%v length=%s", h2, length), func(t *testing.T) {
				w := newWorld(t)
				told := make(chan struct{})
				w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if length != "" {
						rw.Header().Set("Content-Length", length)
					}
					_ = http.NewResponseController(rw).Flush()
					select {
					case <-told:
						_, _ = io.WriteString(rw, "body")
					case <-r.Context().Done():
					}
				}))
				p := w.proxy(basicPolicy, withToken)
				resp, err := p.client(h2).Get("https://token.example/")
				if err != nil {
					t.Fatal(err)
				}
				close(told)
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != "body" || h2 != (resp.ProtoMajor == 2) {
					t.Errorf("%s %q %v", resp.Proto, body, err)
				}
			})
		}
	}
}

// A request that may not be carried out twice is not sent again on another
// connection when the first one closes without an answer.
func TestOnlyIdempotentRequestsAreSentAgain(t *testing.T) {
	for method, again := range map[string]bool{"GET": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false, "BUY": false} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			w.name("plain.example", allowedIP)
			l := w.listen(allowedIP + ":80")
			var got atomic.Int64
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() { // answers what comes first on a connection, and reads what comes second
						defer c.Close()
						br := bufio.NewReader(c)
						for n := range 2 {
							r, err := http.ReadRequest(br)
							if err != nil {
								return
							}
							if r.URL.Path == "/act" {
								got.Add(1)
							}
							if n == 0 {
								_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
							}
						}
					}()
				}
			}()
			p := w.proxy(basicPolicy, withToken)
			c, err := net.Dial("tcp", p.explicit)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			status, _ := ask(t, c, "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n")
			if status != 200 {
				t.Fatalf("%d", status)
			}
			status, reason := ask(t, c, method+" http://plain.example/act HTTP/1.1\r\nHost: plain.example\r\nContent-Length: 0\r\n\r\n")
			switch n := got.Load(); {
			case again && (n != 2 || status != 200):
				t.Errorf("sent %d times, %d %s", n, status, reason)
			case !again && (n != 1 || status != 502 || reason != ReasonUpstreamClosed):
				t.Errorf("sent %d times, %d %s", n, status, reason)
			}
		})
	}
}

// Frames that come while text is held back are kept behind it, and not without end.
func TestFramesBehindHeldBackText(t *testing.T) {
	red, err := redact.New([]byte(testValue))
	if err != nil {
		t.Fatal(err)
	}
	begin := frame(1, false, []byte("token "+testValue[:20]))
	for what, more := range map[string][]byte{
		"pings": frame(9, true, bytes.Repeat([]byte("p"), 125)), "empty pings": frame(9, true, nil), "empty fragments": frame(0, false, nil),
	} {
		t.Run(what, func(t *testing.T) {
			var dst bytes.Buffer
			f := frameRelay{dst: &dst, live: redact.NewLive(red)}
			src := io.MultiReader(bytes.NewReader(begin), &repeated{of: more, left: 8 << 20})
			if err := f.run(src); !errors.Is(err, errAside) {
				t.Errorf("%v after %d bytes", err, len(f.queue))
			}
			if len(f.queue) > 2*maxAside || bytes.Contains(dst.Bytes(), []byte(testValue[:8])) {
				t.Errorf("%d bytes are kept, %q went out", len(f.queue), dst.String())
			}
		})
	}
}

// repeated gives the same bytes over and over.
type repeated struct {
	of   []byte
	at   int
	left int
}

func (e *repeated) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, e.of[e.at:])
	e.at = (e.at + n) % len(e.of)
	e.left -= n
	return n, nil
}
