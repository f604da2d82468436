package site

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	sampleSite(t, dir, Theme{}, sampleEvidence())
	s := httptest.NewServer(Handler(dir))
	defer s.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, c := range []struct {
		method, path, kind, has string
		code                    int
	}{
		{"GET", "/", "text/html; charset=utf-8", "critical escapes", 200},
		{"HEAD", "/", "text/html; charset=utf-8", "", 200},
		{"GET", "/index.html", "text/html; charset=utf-8", "critical escapes", 200},
		{"GET", "/fleet/", "text/html; charset=utf-8", "Attestations", 200},
		{"GET", "/fleet", "", "", 301},
		{"GET", "/status.json", "application/json", "current", 200},
		{"GET", "/boundary.jsonld", "application/ld+json", "Claim", 200},
		{"GET", "/feed.xml", "application/atom+xml; charset=utf-8", "<feed", 200},
		{"GET", "/no/such/page", "text/html; charset=utf-8", "There is no page here", 404},
		{"GET", "/_headers", "text/html; charset=utf-8", "There is no page here", 404},
		{"GET", "/.htaccess", "text/html; charset=utf-8", "There is no page here", 404},
		{"GET", "/../../../../etc/passwd", "text/html; charset=utf-8", "There is no page here", 404},
		{"GET", "/%2e%2e/%2e%2e/etc/passwd", "text/html; charset=utf-8", "There is no page here", 404},
		{"POST", "/", "", "", 405},
	} {
		req, err := http.NewRequest(c.method, s.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.code || !strings.Contains(string(b), c.has) || (c.kind != "" && res.Header.Get("Content-Type") != c.kind) {
			t.Errorf("%s %s: %d %s, %d bytes, %v", c.method, c.path, res.StatusCode, res.Header.Get("Content-Type"), len(b), err)
		}
		for _, h := range headers {
			if res.Header.Get(h.name) != h.value {
				t.Errorf("%s: %s is %q", c.path, h.name, res.Header.Get(h.name))
			}
		}
	}
}

func TestServe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	sampleSite(t, dir, Theme{}, sampleEvidence())
	ctx, cancel := context.WithCancel(context.Background())
	at, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() { done <- Serve(ctx, dir, "127.0.0.1:0", func(a net.Addr) { at <- a }) }()
	res, err := http.Get("http://" + (<-at).String() + "/status.json")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	cancel()
	if err := <-done; err != nil || res.StatusCode != 200 {
		t.Errorf("%d, %v", res.StatusCode, err)
	}
}
