package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// endless is a host whose answer goes on until the client is gone.
func endless() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, "on and on\n"); err != nil || r.Context().Err() != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	})
}

// What an edit denies ends at once, whatever it was reached by: in clear and without a
// connection that is bound to it, passed on, intercepted, in HTTP/2; a host, or a path of
// one that is still allowed. What it does not deny goes on.
func TestEditEndsWhatItDenies(t *testing.T) {
	const head = "version: 1\nname: test\nmode: allowlist\nallow:\n"
	host, path, other := "  - {host: long.example, ports: [80, 443]}\n", "  - {url: https://long.example/a}\n", "  - {host: other.example, ports: [80, 443]}\n"
	for name, tc := range map[string]struct {
		before, after, url string
		h2, ends           bool
	}{
		"in clear":                  {host + other, other, "http://long.example/a", false, true},
		"passed on":                 {host + other, other, "https://long.example/a", false, true},
		"a path":                    {path, "  - {url: https://long.example/b}\n", "https://long.example/a", false, true},
		"a path, HTTP/2":            {path, "  - {url: https://long.example/b}\n", "https://long.example/a", true, true},
		"a path, in clear":          {"  - {url: http://long.example/a}\n", "  - {url: http://long.example/b}\n", "http://long.example/a", false, true},
		"another host":              {host + other, host, "http://long.example/a", false, false},
		"another path":              {path + "  - {url: https://long.example/b}\n", path, "https://long.example/a", true, false},
		"another host, intercepted": {path + other, path, "https://long.example/a", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.host("long.example", allowedIP, endless())
			p := w.proxy(head+tc.before, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", tc.url, nil)
			resp, err := p.client(tc.h2).Do(req)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%+v %v", resp, err)
			}
			defer resp.Body.Close()
			edit := head + tc.after
			if err := p.Reload(Update{Policy: &edit}); err != nil {
				t.Fatal(err)
			}
			if !tc.ends { // far more than was on its way when the edit came
				if n, err := io.CopyN(io.Discard, resp.Body, 10_000); err != nil {
					t.Errorf("it ended after %d bytes: %v", n, err)
				}
				return
			}
			if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<20)); err == nil {
				t.Error("it went on")
			}
		})
	}
}

// An edit that comes between the decision on a connection and its use is not missed: one
// that is to be looked into is not passed on, one that is denied is not used.
func TestEditWhileAConnectionOpens(t *testing.T) {
	const before = "version: 1\nname: test\nmode: allowlist\nallow: [{host: plain.example, ports: [80, 443]}]\n"
	for name, after := range map[string]string{
		"looked into": "version: 1\nname: test\nmode: allowlist\nallow: [{url: https://plain.example/only/this}]\n",
		"denied":      "version: 1\nname: test\nmode: allowlist\nallow: [{host: other.example}]\n",
	} {
		for _, scheme := range []string{"https", "http"} {
			t.Run(fmt.Sprint(name, " ", scheme), func(t *testing.T) {
				w, s := newWorld(t), &seen{}
				w.host("plain.example", allowedIP, s.handler(echo()))
				var p *proxyUnderTest
				p = w.proxy(before, func(c *Config) {
					c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						if network == "tcp" && address != resolverAddr {
							if err := p.Reload(Update{Policy: &after}); err != nil {
								t.Error(err)
							}
						}
						return w.dial(context.WithoutCancel(ctx), network, address)
					}
				})
				resp, err := p.client(false).Get(scheme + "://plain.example/x")
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err == nil && resp.StatusCode == 200 {
					t.Errorf("it went through; %d requests arrived", s.count())
				}
			})
		}
	}
}
