package policy

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
)

// Parse never panics; a refusal leaves no value and says where; what is
// accepted has a canonical form that reads back to itself, is compiled or refused
// with a place, and survives being formatted.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/policies/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "version: 1\nmode: public\n", "version: 1\nmode: allowlist\nallow: [{host: '*.a.b', ports: ['1-65535']}]\n",
		`{"version":1,"mode":"denylist","block":[{"url":"http://x.example:81/%25/ü"}]}`, "version: 1\nmode: &a public\n",
		"version: 1\nmode: allowlist\nallow: [{cidr: '::ffff:1.2.3.0/120'}, {host: 0x7f.1}]\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("p", data)
		if err != nil {
			if p != nil {
				t.Fatal("refused, but left a value")
			}
			if e, ok := err.(*Error); !ok || e.Message == "" || e.File != "p" {
				t.Fatalf("refused with %#v", err)
			}
			return
		}
		canonical, err := p.Canonical()
		if err != nil {
			for _, pin := range p.pins() {
				if pin.Lockfile != "" {
					return // nobody has loaded it
				}
			}
			t.Fatalf("no canonical form: %v", err)
		}
		back, err := ParseCanonical(canonical)
		if err != nil {
			t.Fatalf("the canonical form does not read back: %v\n%s", err, canonical)
		}
		if again, err := back.Canonical(); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("read back, the canonical form is another: %v\n%s\n%s", err, canonical, again)
		}
		formatted, err := Parse("p.yaml", p.Format())
		if err != nil {
			if strings.Contains(err.Error(), "is missing") {
				return // it came from a canonical form, which has no sources
			}
			t.Fatalf("formatted, it does not parse: %v\n%s", err, p.Format())
		}
		if again, err := formatted.Canonical(); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("formatted, the canonical form is another: %v\n%s\n%s\n%s", err, p.Format(), canonical, again)
		}
		if e, err := Compile(p); err == nil {
			for _, s := range e.Allowed(20) {
				if !e.Request(s.Request).Allowed() {
					t.Fatalf("the sample of %s is denied", s.Entry)
				}
			}
			e.Edges()
			e.Routing()
		}
	})
}

// Two spellings of one host get one verdict: what the evaluator is told is a
// host.Host, so this holds when both parse to the same, which is what is tested
// together with the verdict.
func FuzzSpellings(f *testing.F) {
	e := mustCompile(f, `mode: allowlist
allow: [{host: github.com}, {host: "*.bücher.example"}, {cidr: 10.0.0.0/8}, {url: "https://a.example/x"}]
block: [{host: evil.bücher.example}, {cidr: 10.1.0.0/16}]
`)
	for _, s := range []string{"github.com", "GITHUB.COM.", "x.bücher.example", "evil.xn--bcher-kva.example", "10.0.0.1", "0xa000001", "[::ffff:a01:1]", "a.example"} {
		f.Add(s, uint16(443))
	}
	f.Fuzz(func(t *testing.T, s string, port uint16) {
		h, err := host.Parse(s)
		if err != nil {
			return
		}
		spellings := []string{h.String(), strings.ToUpper(h.String())}
		if h.IsAddr() {
			spellings = append(spellings, h.URLHost())
			if h.Addr().Is4() {
				spellings = append(spellings, "::ffff:"+h.String(), "["+netip.AddrFrom16(h.Addr().As16()).String()+"]")
			}
		} else {
			spellings = append(spellings, h.String()+".")
		}
		want := e.Name(h, port)
		for _, other := range spellings {
			o, err := host.Parse(other)
			if err != nil {
				t.Fatalf("%q parses, %q does not: %v", s, other, err)
			}
			if got := e.Name(o, port); got != want {
				t.Fatalf("%q: %v; %q: %v", s, want, other, got)
			}
		}
		// The second gate never lets an address through that the first denies as a
		// literal for what it is.
		if h.IsAddr() {
			gate := e.Address(mustHost(t, "github.com"), port, h.Addr())
			if class := host.Classify(h.Addr()).Class; class != host.ClassPublic && gate.Allowed() != (want.Reason == ReasonAllowEntry) {
				t.Fatalf("%s (%s): as a literal %s %s, as an answer %s %s", h, class, want.Verdict, want.Reason, gate.Verdict, gate.Reason)
			}
		}
	})
}

// A request is never allowed under a path that leads, for a server that decodes
// and cleans it, out of what the entry names.
func FuzzRequestPath(f *testing.F) {
	e := mustCompile(f, "mode: allowlist\nallow: [{url: 'https://a.example/public/x'}]\n")
	block := mustCompile(f, "mode: denylist\nblock: [{url: 'https://a.example/private'}]\n")
	for _, s := range []string{"/public/x/../y", "/public/x/%2e%2e/y", "/public/x/..%2fy", "/private", "/PRIVATE;x", "//private/", "/a/../private", "/%70rivate"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := Request{Scheme: "https", Host: mustHost(t, "a.example"), Port: 443, Method: "GET", Path: path}
		clean, err := host.CleanPath(path)
		if d := e.Request(r); d.Allowed() && (err != nil || !host.HasPrefix(clean, "/public/x")) {
			t.Fatalf("%q is allowed: %v", path, d)
		}
		if d := block.Request(r); d.Allowed() {
			if err != nil {
				t.Fatalf("%q cannot be cleaned and is allowed", path)
			}
			if folded := string(host.FoldPath(nil, clean)); host.HasPrefix(folded, "/private") {
				t.Fatalf("%q is allowed", path)
			}
		}
	})
}
