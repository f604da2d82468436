package paths

import (
	"net/url"
	"strings"
	"testing"
)

func TestBuild(t *testing.T) {
	for _, tt := range []struct {
		prefix, verb, nonce string
		query               url.Values
		want                string
	}{
		{"", Heartbeat, "n", nil, "/wp/heartbeat/n"},
		{"/", Echo, "n", url.Values{QueryEncoding: {EncodingHex}}, "/wp/echo/n?enc=hex"},
		{"/repos/", Redirect, "n", url.Values{QueryTo: {"http://a/b?c"}}, "/repos/wp/redirect/n?to=http%3A%2F%2Fa%2Fb%3Fc"},
		{"/a/b", Sink, "n", nil, "/a/b/wp/sink/n"},
	} {
		if got := Build(tt.prefix, tt.verb, tt.nonce, tt.query); got != tt.want {
			t.Errorf("Build(%q, %q) = %q, want %q", tt.prefix, tt.verb, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		path, prefix, verb, nonce string
		ok                        bool
	}{
		{"/wp/heartbeat/n", "", Heartbeat, "n", true},
		{"/a/b/wp/echo/n", "/a/b", Echo, "n", true},
		{"/wp/a/wp/echo/n", "/wp/a", Echo, "n", true},
		{"/wp/echo/", "", "", "", false},
		{"/wp/echo", "", "", "", false},
		{"/wp//n", "", "", "", false},
		{"/wp/echo/n/more", "", "", "", false},
		{"/other", "", "", "", false},
		{"", "", "", "", false},
	} {
		prefix, verb, n, ok := Parse(tt.path)
		if prefix != tt.prefix || verb != tt.verb || n != tt.nonce || ok != tt.ok {
			t.Errorf("Parse(%q) = %q, %q, %q, %v", tt.path, prefix, verb, n, ok)
		}
	}
}

// What Build makes, Parse takes apart.
func FuzzRoundTrip(f *testing.F) {
	f.Add("", "echo", "nonce")
	f.Add("/repos/a", "sink", "w1")
	f.Add("/wp/x", "page", "n")
	f.Fuzz(func(t *testing.T, prefix, verb, n string) {
		if verb == "" || n == "" || strings.ContainsAny(verb+n, "/?#") || strings.ContainsAny(prefix, "?#") {
			return
		}
		p, v, m, ok := Parse(Build(prefix, verb, n, nil))
		if !ok || v != verb || m != n || p != strings.TrimSuffix(prefix, "/") {
			t.Fatalf("Build(%q, %q, %q) is read as %q, %q, %q, %v", prefix, verb, n, p, v, m, ok)
		}
	})
}
