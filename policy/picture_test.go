package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const zeroDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func brokerDoc(host string) string {
	return "broker: [{host: " + host + ", api: 'https://api." + host + "', app: 1, installation: 1, key: {file: k}, repositories: [{name: acme/app, push: [refs/heads/agent/*, refs/tags/v1]}, {name: acme/docs}]}]\n"
}

func TestEdges(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		want      map[string]string
	}{
		{"public", "mode: public\n", map[string]string{
			EdgeSource: "Allowed default-allow", EdgeRegistry: "Allowed default-allow", EdgeToken: "Denied no-token", EdgeModel: "Denied no-model",
			EdgeMetadata: "Denied always-denied", EdgePrivate: "Denied always-denied", EdgeInternet: "Allowed default-allow", EdgeTenants: "Denied isolated",
		}},
		{"no-network", "mode: no-network\nmodel: {api: openai, url: 'https://m.example', allow: [m]}\n", map[string]string{
			EdgeSource: "Denied default-deny", EdgeRegistry: "Denied default-deny", EdgeToken: "Denied no-token", EdgeModel: "Brokered model-proxy",
			EdgeMetadata: "Denied always-denied", EdgePrivate: "Denied always-denied", EdgeInternet: "Denied default-deny", EdgeTenants: "Denied isolated",
		}},
		{"the signed trust boundary", "mode: allowlist\npacks: [{name: npm, pin: {digests: ['" + zeroDigest + "']}}]\nallow: [{host: github.com}]\n" + brokerDoc("github.com"), map[string]string{
			EdgeSource: "Allowed brokered-token", EdgeRegistry: "Allowed pinned", EdgeToken: "Brokered brokered-token", EdgeModel: "Denied no-model",
			EdgeMetadata: "Denied always-denied", EdgePrivate: "Denied always-denied", EdgeInternet: "Denied default-deny", EdgeTenants: "Denied isolated",
		}},
		{"injected, unpinned, opened", `mode: allowlist
packs: [npm, go]
allow: [{host: github.com}, {cidr: 10.0.0.0/8}, {cidr: 169.254.169.254/32}, {host: "*.com"}]
secrets: [{name: S, from: {env: S}, inject: [{host: github.com, as: bearer}]}]
`, map[string]string{
			EdgeSource: "Allowed allow-entry", EdgeRegistry: "Allowed allow-entry", EdgeToken: "Brokered injected", EdgeModel: "Denied no-model",
			EdgeMetadata: "Allowed opened", EdgePrivate: "Allowed opened", EdgeInternet: "Allowed over-broad", EdgeTenants: "Denied isolated",
		}},
		{"metadata by name", "mode: allowlist\nallow: [{host: metadata.google.internal}, {host: registry.corp.example}]\n", map[string]string{
			EdgeSource: "Denied default-deny", EdgeRegistry: "Allowed allow-entry", EdgeToken: "Denied no-token", EdgeModel: "Denied no-model",
			EdgeMetadata: "Allowed opened", EdgePrivate: "Denied always-denied", EdgeInternet: "Denied default-deny", EdgeTenants: "Denied isolated",
		}},
		{"half of the internet", "mode: allowlist\nallow: [{cidr: 128.0.0.0/1}]\n", map[string]string{
			EdgeSource: "Denied default-deny", EdgeRegistry: "Denied default-deny", EdgeToken: "Denied no-token", EdgeModel: "Denied no-model",
			EdgeMetadata: "Denied always-denied", EdgePrivate: "Denied always-denied", EdgeInternet: "Allowed over-broad", EdgeTenants: "Denied isolated",
		}},
		{"hosts of other kinds", "mode: allowlist\nallow: [{host: api.example.org}, {host: '*.cdn.example'}, {url: 'https://a.example/x'}, {cidr: 8.8.8.0/24}, {cidr: 10.0.0.0/8}, {host: github.com}, {host: registry.corp.example}]\n", map[string]string{
			EdgeSource: "Allowed allow-entry", EdgeRegistry: "Allowed allow-entry", EdgeToken: "Denied no-token", EdgeModel: "Denied no-model", EdgeNamed: "Allowed allow-entry",
			EdgeMetadata: "Denied always-denied", EdgePrivate: "Allowed opened", EdgeInternet: "Denied default-deny", EdgeTenants: "Denied isolated",
		}},
		{"a forge beside the broker's", "mode: allowlist\nallow: [{host: git.example}, {host: github.com}]\n" + brokerDoc("git.example"), map[string]string{
			EdgeSource: "Allowed brokered-token", EdgeRegistry: "Denied default-deny", EdgeToken: "Brokered brokered-token", EdgeModel: "Denied no-model", EdgeNamed: "Allowed allow-entry",
			EdgeMetadata: "Denied always-denied", EdgePrivate: "Denied always-denied", EdgeInternet: "Denied default-deny", EdgeTenants: "Denied isolated",
		}},
	} {
		// The vector that has to be blocked or contained for the page to repeat the edge.
		vectors := map[string]string{
			EdgeSource: "TOK", EdgeRegistry: "NET", EdgeToken: "TOK", EdgeModel: "TOK", EdgeNamed: "NET", EdgeMetadata: "IMD", EdgePrivate: "LAT", EdgeInternet: "NET", EdgeTenants: "TEN",
		}
		edges := mustCompile(t, c.doc).Edges()
		if len(edges) != len(c.want) {
			t.Errorf("%s: %d edges", c.name, len(edges))
		}
		for _, e := range edges {
			if got := string(e.Posture) + " " + e.Reason; got != c.want[e.ID] {
				t.Errorf("%s: %s is %s, want %s", c.name, e.ID, got, c.want[e.ID])
			}
			if e.Label == "" || !strings.HasSuffix(e.Description, ".") || e.Vector != vectors[e.ID] {
				t.Errorf("%s: incomplete, or of another vector: %+v", c.name, e)
			}
		}
	}
}

// Whatever an entry lets through is in the picture, so that it never says that less can
// be reached than can; and the sentence stays short, however many there are.
func TestNamedEdge(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("mode: allowlist\nallow:\n")
	for i := range 30 {
		fmt.Fprintf(&doc, "  - host: h%02d.example.org\n", i)
	}
	for doc, want := range map[string]string{
		"mode: allowlist\nallow: [{host: api.example.org}]\n":                                             "api.example.org, allowed by name.",
		"mode: allowlist\nallow: [{host: '*.cdn.example'}, {cidr: 8.8.8.0/24}, {url: 'https://a.b/x'}]\n": "*.cdn.example, 8.8.8.0/24 and a.b/x, allowed by name.",
		"mode: allowlist\nallow: [{host: '*.github.com'}]\n":                                              "*.github.com, allowed by name.",
		doc.String():     "h00.example.org, h01.example.org, h02.example.org and 27 more, allowed by name.",
		"mode: public\n": "",
		"mode: allowlist\nallow: [{host: github.com}, {host: pypi.org}, {cidr: 10.0.0.0/8}, {host: '*.com'}]\n": "",
	} {
		got := ""
		for _, e := range mustCompile(t, doc).Edges() {
			if e.ID == EdgeNamed {
				got = e.Description
			}
		}
		if got != want {
			t.Errorf("%s\nsays %q, want %q", doc, got, want)
		}
	}
}

// Every sample is allowed by the evaluator that made it, and there is one for
// each entry that is not dead.
func TestSamples(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
packs: [npm]
allow:
  - host: github.com
  - {host: "*.packages.example", methods: [HEAD, POST]}
  - {url: "https://a.example/x%20y"}
  - {host: dead.example}
  - {host: plain.example, ports: [80]}
  - {host: odd.example, ports: ["8000-8010"]}
  - {cidr: 10.1.0.0/16}
  - {cidr: 2606:4700::/32}
block: [{host: dead.example}, {host: wallproof-probe.packages.example}, {host: 10.1.0.0}]
secrets:
  - name: S
    from: {env: S}
    inject: [{host: github.com, as: bearer}, {host: "*.example", paths: [/v1], as: bearer}, {host: nowhere.example.net, as: bearer}]
`+brokerDoc("github.com"))
	want := []string{
		"github.com: https://github.com:443/ GET [S]",
		"*.packages.example: https://wallproof-sample.packages.example:443/ HEAD []",
		"a.example/x y: https://a.example:443/x%20y GET []",
		"plain.example: http://plain.example:80/ GET []",
		"odd.example: https://odd.example:8000/ GET []",
		"registry.npmjs.org: https://registry.npmjs.org:443/ GET []",
		"registry.yarnpkg.com: https://registry.yarnpkg.com:443/ GET []",
		"10.1.0.0/16: https://10.1.0.1:443/ GET []",
		"2606:4700::/32: https://2606:4700:::443/ GET []",
	}
	var got []string
	for _, s := range e.Allowed(100) {
		if !e.Request(s.Request).Allowed() {
			t.Errorf("the sample of %s is denied", s.Entry)
		}
		r := s.Request
		got = append(got, s.Entry+": "+r.Scheme+"://"+r.Host.String()+":"+PortRange{r.Port, r.Port}.String()+r.Path+" "+r.Method+" ["+strings.Join(s.Secrets, " ")+"]")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(e.Allowed(3)); n != 3 {
		t.Errorf("Allowed(3) gives %d", n)
	}

	got = nil
	for _, s := range e.Injected() {
		got = append(got, s.Entry+" "+s.Request.Host.String()+s.Request.Path+" "+s.Request.Method)
	}
	if want := []string{"github.com github.com/ GET", "*.example/v1 wallproof-sample.packages.example/v1 POST"}; !slices.Equal(got, want) {
		t.Errorf("injected %q", got)
	}
	if l := e.Brokered(); len(l) != 2 || l[0].Name != "acme/app" || !l[0].AllowsPush("refs/heads/agent/x") {
		t.Errorf("brokered %+v", l)
	}
	for name, want := range map[string]bool{"collector.attacker.example": true, "github.com": false, "169.254.169.254": true, "10.1.2.3": false} {
		if d, denied := e.Denies(mustHost(t, name)); denied != want {
			t.Errorf("%s: denied %t (%s)", name, denied, d.Reason)
		}
	}
	if d, denied := e.DeniesAddress(netip.MustParseAddr("192.168.0.1")); !denied {
		t.Errorf("192.168.0.1 may be dialled: %s", d.Reason)
	}
	if !e.OpensPrivate() || e.OpensMetadata() || e.OpensInternet() {
		t.Error("opens: private should be true, metadata and internet false")
	}
}

func TestRouting(t *testing.T) {
	inject := func(host string) string {
		return "secrets: [{name: S, from: {env: S}, inject: [{host: '" + host + "', as: bearer}]}]\n"
	}
	for _, c := range []struct {
		name, doc string
		want      Routing
		why       string
		hosts     []string
		nothing   bool
	}{
		{"public", "mode: public\n", RoutingSelective, "", nil, true},
		{"public with a private range", "mode: public\nallow: [{cidr: 10.0.0.0/8}]\n", RoutingSelective, "", nil, true},
		{"exact blocks", "mode: denylist\nblock: [{host: b.example, exact: true}, {url: 'https://a.example/x'}]\n", RoutingSelective, "", []string{"a.example", "b.example"}, false},
		{"exact rule", "mode: public\n" + inject("a.example"), RoutingSelective, "", []string{"a.example"}, false},
		{"model", "mode: public\nmodel: {api: openai, url: 'https://m.example', allow: [m]}\n", RoutingSelective, "", []string{ModelHost}, false},
		{"broker", "mode: public\n" + brokerDoc("g.example"), RoutingSelective, "", []string{"api.g.example", "g.example"}, false},
		{"pinned", "mode: public\npacks: [{name: go, pin: {digests: ['" + zeroDigest + "']}}]\n", RoutingSelective, "", []string{"proxy.golang.org", "sum.golang.org"}, false},
		{"block of a tree", "mode: denylist\nblock: [{host: b.example}]\n", RoutingCatchAll, "the block entry b.example is not for one exact host", nil, false},
		{"block of a wildcard", "mode: denylist\nblock: [{host: '*.b.example'}]\n", RoutingCatchAll, "the block entry *.b.example is not for one exact host", nil, false},
		{"block of a range", "mode: denylist\nblock: [{cidr: 8.8.8.0/24}]\n", RoutingCatchAll, "the block entry 8.8.8.0/24 is not for one exact host", nil, false},
		{"wildcard rule", "mode: public\n" + inject("*.a.example"), RoutingCatchAll, "the injection rule *.a.example is not for one exact host", nil, false},
		{"default deny", "mode: allowlist\nallow: [{host: a.example}]\n", RoutingCatchAll, "mode allowlist denies what it does not name", nil, false},
		{"no-network", "mode: no-network\n", RoutingCatchAll, "mode no-network denies what it does not name", nil, false},
		{"egress agent", "mode: public\negress: {agent: 'a.example:1', server-ca: {file: a}, client-cert: {file: b}, client-key: {file: c}}\n", RoutingCatchAll, "traffic leaves through an egress agent", nil, false},
	} {
		e := mustCompile(t, c.doc)
		got := e.Routing()
		if got.Routing != c.want || got.Why != c.why || !slices.Equal(got.Hosts, c.hosts) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if e.NothingToEnforce() != c.nothing {
			t.Errorf("%s: nothing to enforce %t", c.name, e.NothingToEnforce())
		}
	}
}

func TestRepository(t *testing.T) {
	e := mustCompile(t, "mode: allowlist\nallow: [{host: git.example, ports: [443, 8443]}]\n"+brokerDoc("git.example"))
	for _, c := range []struct {
		host, path, query string
		port              uint16
		want              string
	}{
		{"git.example", "/acme/app.git/info/refs", "service=git-upload-pack", 443, "acme/app git-upload-pack true"},
		{"git.example", "/acme/app/info/refs?service=git-receive-pack", "", 443, "acme/app git-receive-pack true"},
		{"git.example", "/Acme/App.git/git-receive-pack", "", 443, "acme/app git-receive-pack true"},
		{"git.example", "/acme/app.git/git-upload-pack", "", 443, "acme/app git-upload-pack true"},
		{"git.example", "/acme/../acme/app.git/git-upload-pack", "", 443, "acme/app git-upload-pack true"},
		{"git.example", "/acme/other.git/git-receive-pack", "", 443, "acme/other git-receive-pack false"},
		{"git.example", "/acme/app/x/git-receive-pack", "", 443, "acme/app/x git-receive-pack false"},
		// Two services in one query, or one in a strange spelling: taken for a push.
		{"git.example", "/acme/other.git/info/refs", "service=git-upload-pack&service=git-receive-pack", 443, "acme/other git-receive-pack false"},
		{"git.example", "/acme/other.git/info/refs", "x=git-receive-pack", 443, "acme/other git-receive-pack false"},
		{"git.example", "/acme/app.git/info/refs", "", 443, "none"},
		{"git.example", "/acme/app", "", 443, "none"},
		{"git.example", "/acme/app.git/git-upload-pack", "", 8443, "none"},
		{"other.example", "/acme/app.git/git-upload-pack", "", 443, "none"},
		{"sub.git.example", "/acme/app.git/git-upload-pack", "", 443, "none"},
		{"10.0.0.1", "/acme/app.git/git-upload-pack", "", 443, "none"},
		{"git.example", "/acme/..;/app.git/git-upload-pack", "", 443, "none"},
	} {
		l, ok := e.Repository(Request{Scheme: "https", Host: mustHost(t, c.host), Port: c.port, Method: "GET", Path: c.path}, c.query)
		got := "none"
		if ok {
			got = l.Name + " " + l.Service + " " + map[bool]string{true: "true", false: "false"}[l.Repository != nil]
		}
		if got != c.want {
			t.Errorf("%s%s?%s: %s, want %s", c.host, c.path, c.query, got, c.want)
		}
	}
	l, _ := e.Repository(Request{Host: mustHost(t, "git.example"), Port: 443, Path: "/acme/app/git-receive-pack"}, "")
	for ref, want := range map[string]bool{
		"refs/heads/agent/x": true, "refs/heads/agent/x/y": true, "refs/heads/agent/": false, "refs/heads/agent": false,
		"refs/tags/v1": true, "refs/tags/v1x": false, "refs/heads/main": false, "agent/x": false, "refs/heads/agent/../main": false,
		"refs/heads/agent/*": false, "": false,
	} {
		if got := l.AllowsPush(ref); got != want {
			t.Errorf("push to %q: %t", ref, got)
		}
	}
	docs, _ := e.Repository(Request{Host: mustHost(t, "git.example"), Port: 443, Path: "/acme/docs/git-receive-pack"}, "")
	if docs.Repository == nil || docs.AllowsPush("refs/heads/agent/x") {
		t.Error("a repository without push patterns takes a push")
	}
	if (Lease{}).AllowsPush("refs/heads/x") {
		t.Error("no repository takes a push")
	}
}

// Rules: the most specific decides alone; clear text and ambiguous paths get
// nothing. B16: one placeholder serves several hosts.
func TestInjection(t *testing.T) {
	e := mustCompile(t, `mode: public
secrets:
  - {name: EXACT, from: {env: E}, placeholder: placeholder-1, inject: [{host: a.example, as: bearer}, {host: b.example, as: bearer}]}
  - {name: PATH, from: {env: P}, inject: [{host: a.example, paths: [/api, /api/v2], as: bearer}]}
  - {name: WILD, from: {env: W}, inject: [{host: "*.example", as: bearer}]}
  - {name: PORT, from: {env: Q}, inject: [{host: a.example, ports: [8443], as: bearer}]}
  - {name: CLEAR, from: {env: C}, inject: [{host: clear.example, ports: [80, 443], cleartext: true, as: bearer}]}
  - {name: ADDR, from: {env: A}, inject: [{host: 8.8.8.8, as: bearer}]}
  - {name: TWO, from: {env: T}, inject: [{host: two.example, set: [{as: header, header: x-one}, {as: query, param: key, secret: EXACT}]}]}
`)
	for url, want := range map[string]string{
		"https://a.example/":                  "EXACT",
		"https://b.example/":                  "EXACT",
		"https://a.example/api":               "PATH",
		"https://a.example/api/v2/x":          "PATH",
		"https://a.example/apix":              "EXACT",
		"https://a.example/API":               "EXACT",
		"https://a.example/x/../api":          "PATH",
		"https://a.example/x/..;/api":         "",
		"https://a.example:8443/":             "PORT",
		"https://a.example:8444/":             "",
		"https://c.example/":                  "WILD",
		"https://x.a.example/":                "WILD",
		"https://example/":                    "",
		"http://a.example/":                   "",
		"http://a.example:443/":               "",
		"http://clear.example/":               "CLEAR",
		"https://clear.example/":              "CLEAR",
		"https://8.8.8.8/":                    "ADDR",
		"https://134744072/":                  "ADDR",
		"https://8.8.8.9/":                    "",
		"https://two.example/":                "EXACT TWO",
		"https://a.example.evil.example.org/": "",
	} {
		x := e.Explain(url)
		slices.Sort(x.Secrets)
		if got := strings.Join(x.Secrets, " "); got != want || !x.Allowed() {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestExplainJSON(t *testing.T) {
	e := mustCompile(t, "mode: allowlist\nallow:\n  - host: a.example\nsecrets: [{name: S, from: {env: S}, inject: [{host: a.example, as: bearer}]}]\n")
	for _, c := range []struct{ url, want string }{
		{"https://A.example", `{"decision":"allow","reason":"allow-entry","entry":"a.example","line":4,"intercept":true,"url":"https://a.example/","method":"GET","summary":"Allowed by the entry a.example (line 4).","notes":["The address that the name resolves to is checked too, and must not be in a private or special range that no entry opens.","The secret S is injected (bearer, line 5).","TLS is terminated by the proxy, because a rule needs sight of the request."],"secrets":["S"]}`},
		{"nonsense", `{"decision":"deny","reason":"bad-scheme","intercept":false,"url":"nonsense","method":"GET","summary":"Denied: not an absolute URL: it begins with http:// or https://."}`},
	} {
		got, err := json.Marshal(e.Explain(c.url))
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\ngot  %s %v\nwant %s", c.url, got, err, c.want)
		}
	}
	d, err := json.Marshal(e.Name(mustHost(t, "b.example"), 443))
	if err != nil || string(d) != `{"decision":"deny","reason":"default-deny","intercept":false}` {
		t.Errorf("%s, %v", d, err)
	}
}

// A host at which the proxy uses leases is intercepted, and explained so, whether
// it has the repositories or the REST interface.
func TestExplainBrokersHosts(t *testing.T) {
	doc := "mode: allowlist\nallow: [{host: github.com}, {host: api.github.com}, {host: other.example}, {host: 192.0.2.7}, {cidr: 192.0.2.0/24}]\n" + brokerDoc("github.com")
	byAddr := strings.Replace(doc, "https://api.github.com", "https://192.0.2.7", 1)
	for _, c := range []struct {
		doc, url  string
		intercept bool
	}{
		{doc, "https://github.com/", true},
		{doc, "https://api.github.com/repos/acme/app", true},
		{doc, "https://other.example/", false},
		{byAddr, "https://192.0.2.7/", true},
		{byAddr, "https://192.0.2.8/", false},
		{byAddr, "https://api.github.com/", false},
	} {
		x := mustCompile(t, c.doc).Explain(c.url)
		if !x.Allowed() || x.Intercept != c.intercept {
			t.Errorf("%s: %+v", c.url, x)
		}
		if want := map[bool]string{true: "terminated", false: "untouched"}[c.intercept]; !strings.Contains(strings.Join(x.Notes, " "), want) {
			t.Errorf("%s: %v", c.url, x.Notes)
		}
	}
}

// A host that several lists name is named once.
func TestEdgesNameHostsOnce(t *testing.T) {
	for _, e := range mustCompile(t, "mode: allowlist\npacks: [pypi]\nallow: [{host: pypi.org, ports: [443, 80]}]\n").Edges() {
		if strings.Count(e.Description, "pypi.org") > 1 {
			t.Errorf("%s: %s", e.ID, e.Description)
		}
	}
}

// Every reason has a sentence of its own.
func TestSummaries(t *testing.T) {
	for _, r := range []Reason{
		ReasonAllowEntry, ReasonDefaultAllow, ReasonModel, ReasonService, ReasonPublic, ReasonOpened, ReasonBlockEntry, ReasonDefaultDeny,
		ReasonPort, ReasonMethod, ReasonPath, ReasonLocalhost, ReasonMetadataName, ReasonAmbiguousPath, "metadata", "private",
	} {
		s := Decision{Reason: r, Entry: "a.example", Line: 3}.summary(ModeAllowlist)
		if !strings.HasSuffix(s, ".") || strings.Contains(s, "address is "+string(r)) && r != "private" {
			t.Errorf("%s: %q", r, s)
		}
	}
}
