package proxy

import (
	"encoding/base64"
	"strings"
	"testing"
)

const injectPolicy = `version: 1
name: test
mode: allowlist
allow:
  - host: bearer.example
    ports: [80, 443]
  - host: basic.example
  - host: header.example
  - host: query.example
  - host: swap.example
  - host: swapbasic.example
  - host: clear.example
    ports: [80, 443]
  - host: unbound.example
    paths: [/]
secrets:
  - name: A
    from: {env: A}
    inject:
      - {host: bearer.example, as: bearer}
      - {host: basic.example, as: basic, username: me}
      - {host: header.example, as: header, header: X-Api-Key}
      - {host: query.example, as: query, param: key}
      - {host: swap.example, as: header, header: X-Api-Key, replace-only: true}
      - {host: swapbasic.example, as: basic, username: me, replace-only: true}
      - {host: clear.example, as: bearer, cleartext: true, ports: [80, 443]}
  - name: B
    from: {env: B}
    inject:
      - {host: unbound.example, paths: [/only], as: bearer}
`

const (
	valueA  = "value-of-a/with+special=chars&0123456789"
	valueB  = "value-of-b-0123456789abcdef"
	holderA = "wpplaceholder-a-0000"
	holderB = "wpplaceholder-b-0000"
)

func TestInjection(t *testing.T) {
	w, s := newWorld(t), &seen{}
	for i, name := range []string{"bearer", "basic", "header", "query", "swap", "swapbasic", "clear", "unbound"} {
		w.host(name+".example", "93.184.216."+string(rune('1'+i)), s.handler(echo()))
	}
	p := w.proxy(injectPolicy, func(c *Config) {
		c.Secrets = []Secret{{"A", valueA, holderA}, {"B", valueB, holderB}}
	})
	basic := func(user, pass string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+pass))
	}
	for _, tc := range []struct {
		name, url string
		header    []string
		field     string // of the request as the host got it
		want      string
		status    int
		reason    string
	}{
		{"bearer added", "https://bearer.example/", nil, "Authorization", "Bearer " + valueA, 200, ""},
		{"bearer replaces", "https://bearer.example/", []string{"Authorization", "Bearer mine"}, "Authorization", "Bearer " + valueA, 200, ""},
		{"bearer not in clear", "http://bearer.example/", nil, "Authorization", "", 200, ""},
		{"placeholder in clear", "http://bearer.example/", []string{"Authorization", "Bearer " + holderA}, "", "", 403, ReasonPlaceholder},
		{"bearer in clear when asked for", "http://clear.example/", nil, "Authorization", "Bearer " + valueA, 200, ""},
		{"basic", "https://basic.example/", nil, "Authorization", basic("me", valueA), 200, ""},
		{"header", "https://header.example/", []string{"x-api-key", "1", "X-Api-Key", "2"}, "X-Api-Key", valueA, 200, ""},
		{"swap without placeholder", "https://swap.example/", []string{"X-Api-Key", "mine"}, "X-Api-Key", "mine", 200, ""},
		{"swap", "https://swap.example/", []string{"X-Api-Key", "key " + holderA}, "X-Api-Key", "key " + valueA, 200, ""},
		{"swap in another field", "https://swap.example/", []string{"X-Other", holderA}, "", "", 403, ReasonPlaceholder},
		{"swap basic", "https://swapbasic.example/", []string{"Authorization", basic("any", holderA)}, "Authorization", basic("any", valueA), 200, ""},
		{"placeholder of A to an unbound host", "https://unbound.example/", []string{"Authorization", "Bearer " + holderA}, "", "", 403, ReasonPlaceholder},
		{"in base64", "https://unbound.example/", []string{"Authorization", basic("x", holderA)}, "", "", 403, ReasonPlaceholder},
		{"in the query", "https://unbound.example/?q=" + holderA, nil, "", "", 403, ReasonPlaceholder},
		{"in the path", "https://unbound.example/" + holderA, nil, "", "", 403, ReasonPlaceholder},
		{"B's placeholder to A's host", "https://bearer.example/", []string{"X-B", holderB}, "", "", 403, ReasonPlaceholder},
		{"B under its path", "https://unbound.example/only/x", nil, "Authorization", "Bearer " + valueB, 200, ""},
		{"B beside its path", "https://unbound.example/onlyish", nil, "Authorization", "", 200, ""},
		{"B by dot segments", "https://unbound.example/only/../other", nil, "Authorization", "", 200, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := s.count()
			status, reason, _ := p.get(p.client(false), tc.url, tc.header...)
			if status != tc.status || reason != tc.reason {
				t.Fatalf("%d %s, want %d %s", status, reason, tc.status, tc.reason)
			}
			if tc.status != 200 {
				if s.count() != before {
					t.Error("the host got the request")
				}
				return
			}
			if got := strings.Join(s.last(t).Header.Values(tc.field), "|"); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.field, got, tc.want)
			}
		})
	}
	p.get(p.client(false), "https://query.example/x?a=1&key=mine&%6bey=2&b=3")
	q := s.last(t).URL.Query()
	if strings.Join(q["key"], "|") != valueA || q.Get("a") != "1" || q.Get("b") != "3" {
		t.Errorf("query %v", q)
	}
	if s.last(t).Header.Get("X-Wallproof-Reason") != "" {
		t.Error("a field of ours went out")
	}
}

func TestB16OnePlaceholderManyHosts(t *testing.T) {
	w, s := newWorld(t), &seen{}
	w.host("one.example", allowedIP, s.handler(echo()))
	w.host("two.example", otherIP, s.handler(echo()))
	p := w.proxy(`version: 1
name: test
mode: allowlist
allow: [{host: one.example}, {host: two.example}]
secrets:
  - name: A
    from: {env: A}
    inject:
      - {host: one.example, as: bearer, replace-only: true}
      - {host: two.example, as: header, header: X-Key, replace-only: true}
`, func(c *Config) { c.Secrets = []Secret{{"A", valueA, holderA}} })
	p.get(p.client(false), "https://one.example/", "Authorization", "Bearer "+holderA)
	if got := s.last(t).Header.Get("Authorization"); got != "Bearer "+valueA {
		t.Errorf("one: %q", got)
	}
	p.get(p.client(false), "https://two.example/", "X-Key", holderA)
	if got := s.last(t).Header.Get("X-Key"); got != valueA {
		t.Errorf("two: %q", got)
	}
}

func TestHopByHopFieldsDoNotTravel(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	c := p.raw(p.explicit)
	_, _ = ask(t, c, "GET http://token.example/ HTTP/1.1\r\nHost: token.example\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\n"+
		"Connection: X-Mine, close\r\nX-Mine: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n\r\n")
	h := s.last(t).Header
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Mine", "Te", "Upgrade", "Http2-Settings", "Keep-Alive"} {
		if h.Get(name) != "" {
			t.Errorf("%s went through", name)
		}
	}
}
