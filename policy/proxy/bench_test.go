package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// benchWorld has a host that answers 1 KiB, a policy of 1,000 entries, and a
// secret for token.example.
func benchWorld(b *testing.B) (*world, *proxyUnderTest) {
	b.Helper()
	w := newWorld(b)
	body := strings.Repeat("x", 1024)
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, body) })
	for _, n := range []struct{ name, addr string }{{"plain.example", allowedIP}, {"token.example", otherIP}} {
		w.name(n.name, n.addr)
		w.serve(n.addr, h, "h1", n.name)
	}
	var doc strings.Builder
	doc.WriteString(basicPolicy[:strings.Index(basicPolicy, "secrets:")])
	for i := range 1000 {
		fmt.Fprintf(&doc, "  - host: host-%d.example\n", i)
	}
	doc.WriteString(basicPolicy[strings.Index(basicPolicy, "secrets:"):])
	var mu sync.Mutex
	events := 0
	p := w.proxy(doc.String(), func(c *Config) {
		withToken(c)
		c.OnEvent = func(Event) { mu.Lock(); events++; mu.Unlock() }
	})
	return w, p
}

const benchConns = 50

func BenchmarkExchange(b *testing.B) {
	for _, kind := range []string{"direct", "plain", "splice", "intercept"} {
		b.Run(kind, func(b *testing.B) {
			w, p := benchWorld(b)
			work := make(chan struct{})
			var wg sync.WaitGroup
			for range benchConns {
				c, host := benchConn(b, w, p, kind)
				req := "GET / HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
				if kind == "plain" {
					req = strings.Replace(req, "GET /", "GET http://"+host+"/", 1)
				}
				wg.Go(func() {
					br := bufio.NewReader(c)
					for range work {
						if _, err := io.WriteString(c, req); err != nil {
							b.Error(err)
							return
						}
						resp, err := http.ReadResponse(br, nil)
						if err != nil || resp.StatusCode != 200 {
							b.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}

func benchConn(b *testing.B, w *world, p *proxyUnderTest, kind string) (io.ReadWriter, string) {
	b.Helper()
	host := "token.example"
	if kind == "splice" || kind == "plain" {
		host = "plain.example"
	}
	switch kind {
	case "plain":
		return p.raw(p.explicit), host
	case "direct":
		c, err := w.dial(b.Context(), "tcp", otherIP+":443")
		if err != nil {
			b.Fatal(err)
		}
		tc, err := p.handshake(c, host, "http/1.1")
		if err != nil {
			b.Fatal(err)
		}
		return tc, host
	}
	tc, err := p.handshake(p.tunnel(host+":443"), host, "http/1.1")
	if err != nil {
		b.Fatal(err)
	}
	return tc, host
}
