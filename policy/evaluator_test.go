package policy

import (
	"net/netip"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
)

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		table     []want
	}{
		{"public", "mode: public\n", []want{
			{"https://example.org/", "allow default-allow"},
			{"http://example.org:8080/", "allow default-allow"},
			{"http://169.254.169.254/latest/meta-data/", "deny metadata"},
			{"http://metadata.google.internal/", "deny metadata-name"},
			{"http://10.0.0.1/", "deny private"},
			{"http://127.0.0.1/", "deny loopback"},
			{"http://localhost/", "deny localhost-name"},
			{"http://a.localhost./", "deny localhost-name"},
			{"http://100.64.0.1/", "deny cgnat"},
			{"http://[fe80::1]/", "deny link-local"},
			{"https://8.8.8.8/", "allow default-allow"},
			{"https://model.wallproof.internal/", "deny default-deny"},
		}},
		{"public with a private range opened", "mode: public\nallow: [{cidr: 10.1.0.0/16}]\n", []want{
			{"https://10.1.2.3/", "allow allow-entry 10.1.0.0/16"},
			{"https://10.2.2.3/", "deny private"},
			{"http://10.1.2.3/", "deny private"}, // port 443 only
		}},
		{"no-network", "mode: no-network\n", []want{
			{"https://example.org/", "deny default-deny"},
			{"https://8.8.8.8/", "deny default-deny"},
			{"http://169.254.169.254/", "deny metadata"},
		}},
		{"no-network with model", "mode: no-network\nmodel: {api: openai, url: https://api.openai.example/v1, allow: [gpt-x]}\n", []want{
			{"http://model.wallproof.internal/v1/chat/completions", "allow model model.wallproof.internal"},
			{"https://api.openai.example/v1", "deny default-deny"},
		}},
		{"denylist", "mode: denylist\nblock: [{host: evil.example}, {url: 'https://example.org/papers/x'}]\n", []want{
			{"https://evil.example/", "deny block-entry evil.example"},
			{"http://evil.example:8080/", "deny block-entry evil.example"},
			{"https://a.b.evil.example/", "deny block-entry evil.example"},
			{"https://notevil.example/", "allow default-allow"},
			{"https://evil.example.org/", "allow default-allow"},
			{"https://example.org/papers/x", "deny block-entry example.org/papers/x"},
			{"http://example.org/papers/x/y", "deny block-entry example.org/papers/x"},
			{"http://example.org:81/papers/x/y", "deny block-entry example.org/papers/x"},
			{"https://example.org/papers/xy", "allow default-allow"},
			{"https://example.org/papers", "allow default-allow"},
			{"https://www.example.org/papers/x", "allow default-allow"},
		}},
		{"allowlist", "mode: allowlist\nallow: [{host: github.com}, {host: '*.packages.example', methods: [GET, HEAD]}]\n", []want{
			{"https://github.com/", "allow allow-entry github.com"},
			{"https://GITHUB.com./x", "allow allow-entry github.com"},
			{"http://github.com/", "deny port github.com"}, // B6
			{"https://github.com:8443/", "deny port github.com"},
			{"https://api.github.com/", "deny default-deny"},
			{"https://notgithub.com/", "deny default-deny"},
			{"https://github.com.evil.example/", "deny default-deny"},
			{"https://packages.example/", "deny default-deny"},
			{"https://a.packages.example/", "allow allow-entry *.packages.example"},
			{"https://a.b.packages.example/", "allow allow-entry *.packages.example"},
			{"POST https://a.packages.example/", "deny method *.packages.example"},
			{"get https://a.packages.example/", "allow allow-entry *.packages.example"},
			{"https://xpackages.example/", "deny default-deny"},
			{"https://140.82.121.4/", "deny default-deny"},
			{"http://169.254.169.254/", "deny metadata"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { checkDecisions(t, mustCompile(t, c.doc), c.table) })
	}
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		table     []want
	}{
		{"B9: the specific block wins", `mode: allowlist
allow: [{cidr: 192.168.0.0/16}]
block: [{host: 192.168.1.5}]
`, []want{
			{"https://192.168.1.4/", "allow allow-entry 192.168.0.0/16"},
			{"https://192.168.1.5/", "deny block-entry 192.168.1.5/32"},
			{"https://0xc0a80105/", "deny block-entry 192.168.1.5/32"},
			{"https://[::ffff:192.168.1.5]/", "deny block-entry 192.168.1.5/32"},
		}},
		{"the specific allow wins", `mode: denylist
allow: [{host: ok.evil.example}, {cidr: 203.0.113.7/32}, {cidr: 8.8.8.8/32}]
block: [{host: evil.example}, {cidr: 8.8.8.0/24}, {cidr: 203.0.113.0/24}]
`, []want{
			{"https://ok.evil.example/", "allow allow-entry ok.evil.example"},
			{"http://ok.evil.example/", "deny block-entry evil.example"},
			{"https://x.ok.evil.example/", "deny block-entry evil.example"},
			{"https://8.8.8.8/", "allow allow-entry 8.8.8.8/32"},
			{"https://8.8.8.9/", "deny block-entry 8.8.8.0/24"},
			{"https://203.0.113.7/", "allow allow-entry 203.0.113.7/32"},
			{"https://203.0.113.8/", "deny block-entry 203.0.113.0/24"},
		}},
		{"at equal specificity block wins", `mode: allowlist
allow: [{host: a.example}, {host: "*.b.example"}, {url: "https://c.example/x"}, {cidr: 8.8.8.0/24}]
block: [{host: a.example, exact: true}, {host: b.example}, {url: "https://c.example/x"}, {cidr: 8.8.8.0/24}]
`, []want{
			{"https://a.example/", "deny block-entry a.example"},
			{"https://x.b.example/", "deny block-entry b.example"},
			{"https://c.example/x/y", "deny block-entry c.example/x"},
			{"https://8.8.8.8/", "deny block-entry 8.8.8.0/24"},
		}},
		{"a longer path wins", `mode: allowlist
allow: [{host: a.example}, {url: "https://a.example/admin/health"}]
block: [{url: "https://a.example/admin"}]
`, []want{
			{"https://a.example/", "allow allow-entry a.example"},
			{"https://a.example/admin", "deny block-entry a.example/admin"},
			{"https://a.example/admin/x", "deny block-entry a.example/admin"},
			{"https://a.example/admin/health/y", "allow allow-entry a.example/admin/health"},
			{"http://a.example/admin", "deny port a.example"},
		}},
		{"an exact host before its wildcard", `mode: allowlist
allow: [{host: "*.example.org"}, {host: b.example.org, methods: [GET]}]
block: [{host: a.example.org, exact: true}, {host: "*.c.example.org"}]
`, []want{
			{"https://a.example.org/", "deny block-entry a.example.org"},
			{"https://x.a.example.org/", "allow allow-entry *.example.org"},
			{"https://c.example.org/", "allow allow-entry *.example.org"},
			{"https://x.c.example.org/", "deny block-entry *.c.example.org"},
			{"https://b.example.org/", "allow allow-entry b.example.org"},
			// Methods are a condition: the entry says nothing of a POST.
			{"POST https://b.example.org/", "allow allow-entry *.example.org"},
		}},
		{"methods and ports are conditions", `mode: allowlist
allow: [{host: a.example, ports: [80, 443, "8000-8010"]}]
block: [{host: a.example, methods: [POST]}, {host: a.example, ports: [8005]}]
`, []want{
			{"https://a.example/", "allow allow-entry a.example"},
			{"http://a.example/", "allow allow-entry a.example"},
			{"http://a.example:8010/", "allow allow-entry a.example"},
			{"http://a.example:8011/", "deny port a.example"},
			{"http://a.example:8005/", "deny block-entry a.example"},
			{"POST https://a.example/", "deny block-entry a.example"},
			{"post https://a.example/", "deny block-entry a.example"},
		}},
		{"only an exact name opens a name that is always denied", `mode: public
allow: [{host: localhost}, {host: metadata.google.internal}, {host: x.localhost}]
`, []want{
			{"https://localhost/", "allow allow-entry localhost"},
			{"https://x.localhost/", "allow allow-entry x.localhost"},
			{"https://y.localhost/", "deny localhost-name"},
			{"https://y.x.localhost/", "deny localhost-name"},
			{"https://metadata.google.internal/", "allow allow-entry metadata.google.internal"},
			{"https://metadata.goog/", "deny metadata-name"},
		}},
		{"a block covers its whole tree", "mode: denylist\nblock: [{host: com}]\nallow: [{host: \"*.example.com\"}]\n", []want{
			{"https://x.com/", "deny block-entry com"},
			{"https://x.example.com/", "allow allow-entry *.example.com"},
			{"https://example.com/", "deny block-entry com"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { checkDecisions(t, mustCompile(t, c.doc), c.table) })
	}
}

// Blocked paths by every spelling that has got past somebody.
func TestBlockedPathSpellings(t *testing.T) {
	e := mustCompile(t, "mode: denylist\nblock: [{url: 'https://example.org/papers/x'}]\n")
	for _, path := range []string{
		"/papers/x", "/papers/x/", "/papers//x", "//papers/x", "/papers/./x", "/a/../papers/x", "/papers/y/../x",
		"/%70apers/x", "/papers/%78", "/papers%2fx", "/papers/%2e/x", "/a/%2e%2e/papers/x", "/PAPERS/X", "/Papers/x/y",
		"/papers;a=1/x", "/papers/x;a", "/papers/x.", "/papers/x%20", "/papers./x", "/papers/x?y", "/papers/x/../x",
	} {
		if got := explained(e, "https://example.org"+path); got != "deny block-entry example.org/papers/x" {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, path := range []string{"/papers/..;/papers/x", "/papers\\x", "/papers%5cx", "/%2570apers/x", "/papers/%00x", "/a/..%2fpapers/x", "/%c0%ae/papers/x"} {
		if got := e.Request(Request{Scheme: "https", Host: mustHost(t, "example.org"), Port: 443, Method: "GET", Path: path}); got.Reason != ReasonAmbiguousPath {
			t.Errorf("%s: %s %s", path, got.Verdict, got.Reason)
		}
	}
	// A host without path rules does not care.
	if got := e.Request(Request{Scheme: "https", Host: mustHost(t, "other.example"), Port: 443, Method: "GET", Path: "/a\\b"}); !got.Allowed() {
		t.Errorf("other.example: %s", got.Reason)
	}
}

// An allowed path is compared exactly: no folding that could widen it.
func TestAllowedPathSpellings(t *testing.T) {
	e := mustCompile(t, "mode: allowlist\nallow: [{url: 'https://example.org/papers/x'}]\n")
	for path, want := range map[string]string{
		"/papers/x": "allow allow-entry example.org/papers/x", "/papers/x/y": "allow allow-entry example.org/papers/x",
		"/papers/%78": "allow allow-entry example.org/papers/x", "/papers/y/../x": "allow allow-entry example.org/papers/x",
		"/Papers/x": "deny path example.org/papers/x", "/papers;a/x": "deny path example.org/papers/x",
		"/papers/xy": "deny path example.org/papers/x", "/papers/x/../y": "deny path example.org/papers/x",
		"/papers/x/%2e%2e/y": "deny path example.org/papers/x", "/": "deny path example.org/papers/x",
		"/papers/x/..;/y": "deny ambiguous-path", "/papers/x/..%2fy": "deny ambiguous-path",
	} {
		if got := explained(e, "https://example.org"+path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Many paths of one host are searched, not scanned; the answer is the same.
func TestManyPaths(t *testing.T) {
	p := mustParse(t, "mode: denylist\nblock: [{host: a.example, exact: true, paths: [/x]}]\n")
	for _, path := range []string{"/a", "/a/b", "/a/b/c", "/ab", "/z/y", "/Q"} {
		e := p.Block[0]
		e.Paths = []string{path}
		p.Block = append(p.Block, e)
	}
	allow := p.Block[0]
	allow.Paths, allow.Ports = []string{"/a/b/free"}, []PortRange{{443, 443}}
	p.Allow = []Entry{allow}
	e, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	checkDecisions(t, e, []want{
		{"https://a.example/", "allow default-allow"},
		{"https://a.example/a", "deny block-entry a.example/a"},
		{"https://a.example/a/b", "deny block-entry a.example/a/b"},
		{"https://a.example/a/b/c/d", "deny block-entry a.example/a/b/c"},
		{"https://a.example/a/x", "deny block-entry a.example/a"},
		{"https://a.example/a/b/free/x", "allow allow-entry a.example/a/b/free"},
		{"https://a.example/abc", "allow default-allow"},
		{"https://a.example/ab/c", "deny block-entry a.example/ab"},
		{"https://a.example/z", "allow default-allow"},
		{"https://a.example/q", "deny block-entry a.example/Q"},
	})
}

func TestSecondGate(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
allow:
  - host: a.example
  - {host: db.example, ports: [5432]}
  - {cidr: 10.0.0.0/8, ports: [443, 5432]}
  - {cidr: 169.254.0.0/16}
  - {cidr: 0.0.0.0/0}
  - {cidr: "::/0"}
block:
  - cidr: 10.9.0.0/16
  - cidr: 8.8.4.0/24
  - {cidr: 1.1.1.0/24, methods: [POST]}
`)
	a := mustHost(t, "a.example")
	for _, c := range []struct {
		addr string
		port uint16
		want string
	}{
		{"93.184.216.34", 443, "allow public"},
		{"8.8.4.4", 443, "deny block-entry"},
		{"1.1.1.1", 443, "allow public"}, // a method says nothing of an address
		{"10.1.2.3", 443, "allow opened"},
		{"::ffff:10.1.2.3", 443, "allow opened"},
		{"10.1.2.3", 80, "deny private"},
		{"10.1.2.3", 0, "allow opened"},
		{"10.9.2.3", 443, "deny block-entry"},
		{"64:ff9b::10.1.2.3", 443, "allow opened"},
		{"64:ff9b::10.9.2.3", 443, "deny block-entry"},
		{"2002:a01:203::1", 443, "deny private"}, // the tunnel itself is not opened
		{"169.254.1.1", 443, "allow opened"},
		{"169.254.169.254", 443, "deny metadata"}, // needs its own /32
		{"fd00::1", 443, "deny private"},          // ::/0 opens no special range
		{"192.168.1.1", 443, "deny private"},
		{"127.0.0.1", 443, "deny loopback"},
		{"::1", 443, "deny loopback"},
		{"2000::1", 443, "allow public"},
	} {
		d := e.Address(a, c.port, netip.MustParseAddr(c.addr))
		if got := d.Verdict.String() + " " + string(d.Reason); got != c.want {
			t.Errorf("%s port %d: %s, want %s", c.addr, c.port, got, c.want)
		}
	}
	meta := mustCompile(t, "mode: public\nallow: [{cidr: 169.254.169.254/32, ports: [80]}, {cidr: 'fd00:ec2::254'}]\n")
	for addr, want := range map[string]Verdict{"169.254.169.254": Allow, "169.254.170.2": Deny, "169.254.1.1": Deny} {
		if got := meta.Address(a, 80, netip.MustParseAddr(addr)); got.Verdict != want {
			t.Errorf("%s: %s %s", addr, got.Verdict, got.Reason)
		}
	}
	// A literal is dialled as it is and in no other way.
	lit := mustHost(t, "10.1.2.3")
	if d := e.Address(lit, 443, netip.MustParseAddr("10.1.2.4")); d.Allowed() {
		t.Error("a literal may be dialled at another address")
	}
	if d := e.Address(lit, 443, netip.MustParseAddr("10.1.2.3")); !d.Allowed() {
		t.Errorf("a literal may not be dialled: %s", d.Reason)
	}
	if d := e.Address(a, 443, netip.Addr{}); d.Allowed() {
		t.Error("no address may be dialled")
	}
}

// B13.
func TestEmbeddedLiterals(t *testing.T) {
	e := mustCompile(t, "mode: public\n")
	checkDecisions(t, e, []want{
		{"http://[2002:a9fe:a9fe::]/", "deny metadata"},
		{"http://[::169.254.169.254]/", "deny metadata"},
		{"http://[2000::1]/", "allow default-allow"},
		{"http://[64:ff9b::a9fe:a9fe]/", "deny metadata"},
		{"http://[::ffff:169.254.169.254]/", "deny metadata"},
		{"http://0xa9fea9fe/", "deny metadata"},
		{"http://2852039166/", "deny metadata"},
		{"http://0251.0376.0251.0376/", "deny metadata"},
		{"http://169.254.43518/", "deny metadata"},
		{"http://%31%36%39.254.169.254/", "deny bad-url"},
	})
}

// B3, B4, B5 and the like: what is not a host is denied by reason, before
// anything else.
func TestUnparsable(t *testing.T) {
	e := mustCompile(t, "mode: public\n")
	checkDecisions(t, e, []want{
		{"https://[allowed.example]/", "deny bad-host"},
		{"https://attacker.example\x00.allowed.example/", "deny bad-url"},
		{"https://a..b/", "deny bad-host"},
		{"https:///x", "deny bad-host"},
		{"https://allowed@evil.example/", "deny bad-url"},
		{"ftp://example.org/", "deny bad-scheme"},
		{"file:///etc/passwd", "deny bad-scheme"},
		{"not a url", "deny bad-url"},
		{"example.org", "deny bad-scheme"},
		{"https://1.2.3.4.5/", "deny bad-host"},
		{"https://[fe80::1%25eth0]/", "deny bad-host"},
		{"https://x.example:99999/", "deny bad-url"},
		{"https://*.example.org/", "deny bad-host"},
	})
	if d := e.Name(host.Host{}, 443); d.Allowed() || d.Reason != ReasonBadHost {
		t.Errorf("no host: %s", d.Reason)
	}
}

func TestIntercept(t *testing.T) {
	e := mustCompile(t, `mode: denylist
packs: [{name: npm, pin: {digests: ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]}}]
allow: [{host: lim.example, methods: [GET]}]
block: [{url: "https://path.example/x"}, {host: post.example, methods: [POST]}, {host: evil.example}]
secrets:
  - {name: A, from: {env: A}, inject: [{host: "*.inj.example", as: bearer}, {host: port.example, ports: [8443], as: bearer}]}
broker:
  - {host: git.example, api: "https://git.example/api", app: 1, installation: 1, key: {file: k.pem}, repositories: [{name: a/b}]}
`)
	for name, want := range map[string]bool{
		"plain.example": false, "lim.example": true, "path.example": true, "post.example": true,
		"a.inj.example": true, "inj.example": false, "git.example": true, "sub.git.example": false,
		"port.example": false, "registry.npmjs.org": true, "1.1.1.1": false,
	} {
		if d := e.Name(mustHost(t, name), 443); d.Intercept != want || !d.Allowed() {
			t.Errorf("%s: intercept %t, %s", name, d.Intercept, d.Reason)
		}
	}
	if d := e.Name(mustHost(t, "port.example"), 8443); !d.Intercept {
		t.Error("port.example:8443 is not intercepted")
	}
}

func TestUpgrade(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
allow: [{host: any.example}, {host: read.example, methods: [GET]}, {host: ws.example, methods: [GET, UPGRADE]}]
block: [{host: any.example, methods: [UPGRADE], paths: [/no]}]
`)
	for _, c := range []struct {
		host, path string
		want       Verdict
	}{{"any.example", "/", Allow}, {"any.example", "/no/x", Deny}, {"read.example", "/", Deny}, {"ws.example", "/", Allow}} {
		r := Request{Scheme: "https", Host: mustHost(t, c.host), Port: 443, Method: "GET", Path: c.path, Upgrade: true}
		if d := e.Request(r); d.Verdict != c.want {
			t.Errorf("%s%s: %s %s", c.host, c.path, d.Verdict, d.Reason)
		}
		r.Upgrade = false
		if d := e.Request(r); d.Verdict != Allow {
			t.Errorf("%s%s without upgrade: %s %s", c.host, c.path, d.Verdict, d.Reason)
		}
	}
}

func TestNameQueries(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
allow: [{host: a.example, ports: [8443]}, {host: b.example}, {host: c.example, ports: [80, 443]}]
block: [{host: b.example}, {host: c.example, ports: [80]}]
`)
	for name, want := range map[string]Verdict{"a.example": Allow, "b.example": Deny, "c.example": Allow, "d.example": Deny} {
		if d := e.Name(mustHost(t, name), 0); d.Verdict != want {
			t.Errorf("%s: %s %s", name, d.Verdict, d.Reason)
		}
	}
	if d := e.Name(mustHost(t, "c.example"), 80); d.Allowed() {
		t.Error("c.example:80 is allowed")
	}
}

func TestPhases(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
allow: [{host: a.example}]
phases:
  verifier: {mode: allowlist, allow: [{host: v.example}]}
secrets: [{name: S, from: {env: S}, inject: [{host: a.example, as: bearer}]}]
services: [{name: db, image: "db@sha256:0000000000000000000000000000000000000000000000000000000000000000", ports: [5432]}]
`)
	for _, c := range []struct {
		phase Phase
		url   string
		want  string
	}{
		{PhaseSetup, "https://anything.example/", "allow default-allow"},
		{PhaseSetup, "http://169.254.169.254/", "deny metadata"},
		{PhaseSetup, "http://db:5432/", "allow default-allow"},
		{PhaseAgent, "https://a.example/", "allow allow-entry a.example"},
		{PhaseAgent, "https://v.example/", "deny default-deny"},
		{PhaseAgent, "http://db:5432/", "allow service db"},
		{PhaseAgent, "http://db:5433/", "deny port db"},
		{PhaseVerifier, "https://v.example/", "allow allow-entry v.example"},
		{PhaseVerifier, "https://a.example/", "deny default-deny"},
	} {
		if got := explained(e.Phase(c.phase), c.url); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.phase, c.url, got, c.want)
		}
	}
	r := Request{Scheme: "https", Host: mustHost(t, "a.example"), Port: 443, Method: "GET", Path: "/"}
	if e.Injection(r) == nil {
		t.Error("nothing is injected in the agent phase")
	}
	for _, p := range []Phase{PhaseSetup, PhaseVerifier} {
		if e.Phase(p).Injection(r) != nil {
			t.Errorf("a secret is injected in %s", p)
		}
		if e.Phase(p).Digest() != e.Digest() {
			t.Errorf("%s has a digest of its own", p)
		}
	}
}

func TestModelAddress(t *testing.T) {
	model := func(url, more string) *Evaluator {
		return mustCompile(t, "mode: no-network\nmodel: {api: openai, url: '"+url+"', cleartext: true, allow: [m]"+more+"}\n")
	}
	for _, c := range []struct {
		url, addr string
		want      Verdict
	}{
		{"https://api.example/v1", "93.184.216.34", Allow},
		{"https://api.example/v1", "10.0.0.1", Deny},
		{"http://10.0.0.1:11434/v1", "10.0.0.1", Allow},
		{"http://10.0.0.1:11434/v1", "10.0.0.2", Deny},
		{"http://169.254.169.254/v1", "169.254.169.254", Deny},
	} {
		if d := model(c.url, "").ModelAddress(netip.MustParseAddr(c.addr)); d.Verdict != c.want {
			t.Errorf("%s at %s: %s %s", c.url, c.addr, d.Verdict, d.Reason)
		}
	}
	if d := mustCompile(t, "mode: no-network\n").ModelAddress(netip.MustParseAddr("1.1.1.1")); d.Allowed() {
		t.Error("without a model there is one")
	}
}
