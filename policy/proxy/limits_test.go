package proxy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestLimitsOfThePolicy(t *testing.T) {
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(rw, strings.Repeat("x", 10000))
	}))
	p := w.proxy(basicPolicy+"limits: {requests: 2}\n", withToken)
	c := p.client(false)
	for i, want := range []int{200, 200, 429, 429} {
		if status, _, _ := p.get(c, "http://token.example/"); status != want {
			t.Errorf("request %d: %d", i+1, status)
		}
	}
	p = w.proxy(basicPolicy+"limits: {download: 25000}\n", withToken)
	broken := 0
	for range 4 {
		resp, err := p.client(false).Get("http://token.example/")
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err != nil {
			broken++
		}
	}
	if broken != 2 {
		t.Errorf("%d downloads broke off, want 2", broken)
	}
	w.denied(ReasonLimit)
	p = w.proxy(basicPolicy+"limits: {upload: 5000}\n", withToken)
	resp, err := p.client(false).Post("http://token.example/", "text/plain", strings.NewReader(strings.Repeat("x", 100000)))
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == 200 {
			t.Error("an upload beyond the limit went through")
		}
	}
	p = w.proxy(basicPolicy+"limits: {connections: 1}\n", withToken)
	first := p.raw(p.explicit)
	if status, _ := ask(t, first, "GET http://token.example/ HTTP/1.1\r\nHost: token.example\r\n\r\n"); status != 200 {
		t.Error(status)
	}
	if !turnedAway(p.explicit) {
		t.Error("a second connection was served")
	}
	w.denied(ReasonConnections)
}

// D30: a service is reached by its name at the operator's address, and at no
// other port.
func TestD30Services(t *testing.T) {
	w := newWorld(t)
	w.name("db", "10.9.9.9") // what a name server says of it counts for nothing
	w.serve("172.31.0.5", echo(), "h1", "db")
	p := w.proxy(`version: 1
name: test
mode: no-network
services:
  - name: db
    image: "registry.example/db@sha256:`+strings.Repeat("a", 64)+`"
    ports: [80]
`, func(c *Config) { c.Services = map[string]string{"db": "172.31.0.5"} })
	if status, reason, _ := p.get(p.client(false), "http://db/"); status != 200 || !w.wasDialled("172.31.0.5:80") {
		t.Errorf("%d %s", status, reason)
	}
	if status, _ := p.send("CONNECT db:443 HTTP/1.1\r\nHost: db:443\r\n\r\n"); status != 403 {
		t.Errorf("another port: %d", status)
	}
	if r := query(t, p, "db", dns.TypeA); len(r.Answer) != 1 || !strings.Contains(r.Answer[0].String(), "172.31.0.5") {
		t.Errorf("%v", r)
	}
	if w.wasAsked("db") || w.wasDialled("10.") {
		t.Error("it was looked up")
	}
}

// D10: artefacts of a pinned entry are those of the lockfile or none.
func TestD10PinnedArtefacts(t *testing.T) {
	good := strings.Repeat("good artefact ", 20000)
	w := newWorld(t)
	w.host("registry.example", allowedIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good.tgz", "/page":
			_, _ = io.WriteString(rw, good)
		case "/part.tgz": // what a client asked for in parts, or a server gives in parts
			if r.Header.Get("Range") != "" {
				rw.Header().Set("Content-Range", "bytes 0-999/1000")
				rw.WriteHeader(206)
			}
			_, _ = io.WriteString(rw, strings.Repeat("bad", 300))
		case "/unasked.tgz":
			rw.Header().Set("Content-Range", "bytes 0-899/1000")
			rw.WriteHeader(206)
			_, _ = io.WriteString(rw, strings.Repeat("bad", 300))
		case "/other.tgz":
			rw.WriteHeader(203)
			_, _ = io.WriteString(rw, strings.Repeat("bad", 300))
		case "/short.tgz":
			_, _ = io.WriteString(rw, "x")
		case "/bad.tgz":
			_, _ = io.WriteString(rw, strings.Replace(good, "good", "evil", 1))
		}
	}))
	p := w.proxy(fmt.Sprintf(`version: 1
name: test
mode: allowlist
allow:
  - host: registry.example
    pin:
      digests: ["sha256:%x"]
      artefacts: [.tgz]
`, sha256.Sum256([]byte(good))), nil)
	for path, want := range map[string]bool{"/good.tgz": true, "/page": true, "/bad.tgz": false, "/short.tgz": false,
		"/bad.t%67z": false, "/part.tgz": false, "/unasked.tgz": false, "/other.tgz": false} {
		for _, h2 := range []bool{false, true} {
			req, _ := http.NewRequest("GET", "https://registry.example"+path, nil)
			if path == "/part.tgz" {
				req.Header.Set("Range", "bytes=0-999")
			}
			resp, err := p.client(h2).Do(req)
			if err != nil {
				if want {
					t.Fatal(err)
				}
				continue // it broke off before anything was sent
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == 502 && resp.Header.Get(reasonField) == ReasonPin {
				err = errPin
			}
			if (err == nil) != want || want && string(body) != good {
				t.Errorf("%s h2=%v: %d bytes, %v", path, h2, len(body), err)
			}
			if !want && len(body) > len(good)-pinHold {
				t.Errorf("%s: its end was handed on", path)
			}
		}
	}
	w.denied(ReasonPin)
}
