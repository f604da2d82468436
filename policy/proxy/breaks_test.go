//go:build breaks

package proxy

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestEachBreakBreaks: every switch lets through the attack that its protection
// stops, and nothing else is needed for it.
func TestEachBreakBreaks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		breaks Breaks
		escape func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool
	}{
		{"host agreement", Breaks{NoHostAgreement: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			status, _ := inner(t, p, "token.example", "evil.example")
			return status == 200 && s.last(t).Host == "evil.example"
		}},
		{"forward Host", Breaks{ForwardHost: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			_, _ = inner(t, p, "token.example", "open.example")
			return w.wasDialled("93.184.216.37")
		}},
		{"inject by Host", Breaks{InjectByHost: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			_, _ = inner(t, p, "open.example", "token.example")
			return s.last(t).Header.Get("Authorization") == "Bearer "+testValue
		}},
		{"SNI agreement", Breaks{NoSNIAgreement: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			tc := tls.Client(p.tunnel("plain.example:443"), &tls.Config{ServerName: "evil.example", InsecureSkipVerify: true})
			return tc.Handshake() == nil
		}},
		{"address gate", Breaks{NoAddressGate: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			w.name("plain.example", "10.0.0.7")
			p.send("GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n")
			return w.wasDialled("10.0.0.7")
		}},
		{"original destination", Breaks{NoOriginalDst: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			_, _ = p.handshake(p.redirected(evilIP+":443"), "plain.example")
			return w.wasDialled(evilIP)
		}},
		{"lookup before policy", Breaks{LookupBeforePolicy: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			p.send("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
			return w.wasAsked("evil.example")
		}},
		{"every name", Breaks{AllowEveryName: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			status, _ := p.send("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
			return status == 200
		}},
		{"plain HTTP", Breaks{PlainHTTPUnpoliced: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			status, _ := p.send("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
			return status == 200 && w.wasDialled(evilIP)
		}},
		{"any port", Breaks{AnyPort: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			status, _ := p.send("GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n")
			return status == 200
		}},
		{"inject everywhere", Breaks{InjectEverywhere: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			p.get(p.client(false), "https://open.example/", "X-Key", "wpplaceholder-of-the-token")
			return s.last(t).Header.Get("X-Key") == testValue
		}},
		{"smuggling by CL and TE", Breaks{AcceptSmuggling: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			smuggled := "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: token.example\r\n\r\n"
			status, _ := p.send(fmt.Sprintf("POST http://token.example/ HTTP/1.1\r\nHost: token.example\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(smuggled), smuggled))
			w.event("anything", func(e Event) bool { return e.Verdict != "" })
			return status == 200 && s.waitFor("/smuggled") // refused as a whole, nothing of it arrives
		}},
		{"TRACE", Breaks{AllowTrace: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			status, _ := p.send("TRACE http://token.example/ HTTP/1.1\r\nHost: token.example\r\n\r\n")
			return status == 200
		}},
		{"redaction", Breaks{NoRedaction: true}, echoes(testValue)},
		{"raw", Breaks{SkipEncoding: "raw"}, echoes(testValue)},
		{"base64", Breaks{SkipEncoding: "base64"}, leaks("base64", base64.StdEncoding.EncodeToString([]byte("xbefore " + testValue))[16:40])},
		{"hex", Breaks{SkipEncoding: "hex"}, leaks("hex", hex.EncodeToString([]byte(testValue)))},
		{"percent", Breaks{SkipEncoding: "percent"}, leaks("percent", "%77%70%63%61")},
		{"encoded", Breaks{SkipEncoding: "encoded"}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			req, _ := http.NewRequest("GET", "https://mirror.example/gzip", nil)
			req.Header.Set("Accept-Encoding", "gzip")
			resp, err := p.client(false).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.Header.Get("Content-Encoding") == "gzip"
		}},
		{"headers", Breaks{SkipEncoding: "headers"}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			resp, err := p.client(false).Get("https://mirror.example/header")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.Header.Get("X-Echo") == testValue
		}},
		{"chunks", Breaks{SkipEncoding: "chunks"}, leaks("chunks", testValue)},
		{"DNS names", Breaks{DNSAnswersAnything: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			query(t, p, "data.evil.example", dns.TypeA)
			return w.wasAsked("data.evil.example")
		}},
		{"DNS addresses", Breaks{DNSAnswersAnyAddress: true}, func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
			w.name("plain.example", "169.254.169.254")
			return len(query(t, p, "plain.example", dns.TypeA).Answer) == 1
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, broken := range []bool{false, true} {
				w, s := basicWorld(t)
				w.host("open.example", "93.184.216.37", s.handler(echo()))
				w.host("mirror.example", "93.184.216.38", mirror())
				doc := strings.Replace(basicPolicy, "  - host: other.example\n", "  - host: other.example\n  - {host: open.example, methods: [GET]}\n  - host: mirror.example\n", 1)
				doc = strings.Replace(doc, "inject: [", "inject: [{host: mirror.example, as: bearer}, ", 1)
				doc = strings.Replace(doc, "{host: token.example, as: bearer}", "{host: token.example, as: bearer, cleartext: true, ports: [80, 443]}", 1)
				p := w.proxy(doc, func(c *Config) {
					withToken(c)
					if broken {
						c.Breaks = tc.breaks
					}
				})
				s.handler(echo()).ServeHTTP(discard{}, &http.Request{Header: http.Header{}, Body: http.NoBody}) // something to look at
				if escaped := tc.escape(t, w, p, s); escaped != broken {
					t.Errorf("broken %v, escaped %v", broken, escaped)
				}
			}
		})
	}
}

func inner(t *testing.T, p *proxyUnderTest, target, host string) (int, string) {
	t.Helper()
	tc, err := p.handshake(p.tunnel(target+":443"), target, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	return ask(t, tc, "GET /inner HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
}

func echoes(leak string) func(*testing.T, *world, *proxyUnderTest, *seen) bool {
	return leaks("raw", leak)
}

func leaks(form, leak string) func(*testing.T, *world, *proxyUnderTest, *seen) bool {
	return func(t *testing.T, w *world, p *proxyUnderTest, s *seen) bool {
		_, _, body := p.get(p.client(false), "https://mirror.example/"+form)
		return strings.Contains(body, leak)
	}
}

// waitFor says whether the last request is for path; the request before it has
// been answered, and what was smuggled comes in the same packet.
func (s *seen) waitFor(path string) bool {
	for range 2000 {
		s.mu.Lock()
		hit := len(s.reqs) > 0 && s.reqs[len(s.reqs)-1].RequestURI == path
		s.mu.Unlock()
		if hit {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (discard) WriteHeader(int)             {}

func TestBrokenBroker(t *testing.T) {
	for _, tc := range []struct {
		name   string
		breaks Breaks
		args   []string
		ref    string
	}{
		{"ref scope", Breaks{NoRefScope: true}, []string{"origin", "HEAD:refs/heads/release"}, "refs/heads/release"},
		{"force", Breaks{AllowForcePush: true}, []string{"--force", "origin", "HEAD~1:refs/heads/agent/x"}, "refs/heads/agent/x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGitWorld(t, func(c *Config) { c.Breaks = tc.breaks })
			commit(t, g.work, "two")
			if out, err := g.push("origin", "HEAD:refs/heads/agent/x"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			before := g.f.head(tc.ref)
			if out, err := g.push(tc.args...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if g.f.head(tc.ref) == before {
				t.Error("nothing changed")
			}
		})
	}
	own := newGitWorld(t, func(c *Config) { c.Breaks = Breaks{OwnCredential: true} })
	if seen := own.sendOwn(t); !strings.Contains(seen, "somebody-else") {
		t.Errorf("own credential: the forge was shown %q", seen)
	}
	// Whatever the clock says, the lease of the first fetch is used again.
	var offset atomic.Int64
	old := newGitWorld(t, func(c *Config) {
		c.Breaks = Breaks{NoLeaseExpiry: true}
		c.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	})
	minted := func() int { old.f.mu.Lock(); defer old.f.mu.Unlock(); return len(old.f.tokens) }
	before := minted()
	offset.Store(int64(20 * time.Minute))
	if out, err := gitTry(old.work, old.env, "fetch", "origin"); err != nil {
		t.Errorf("lease expiry: %v %s", err, out)
	}
	if n := minted(); before == 0 || n != before {
		t.Errorf("lease expiry: %d leases after the first %d ran out, so they still expire", n, before)
	}
	g := newGitWorld(t, func(c *Config) { c.Breaks = Breaks{NoRepositoryScope: true} })
	commit(t, g.work, "two")
	out, _ := g.push("https://git.example/org/other.git", "HEAD:refs/heads/agent/x")
	if strings.Contains(out, "403") {
		t.Errorf("repository scope: %s", out)
	}
}
