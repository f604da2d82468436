package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Everything that a document can get wrong, with the place and what is said.
func TestParseRefuses(t *testing.T) {
	const zero = "0000000000000000000000000000000000000000000000000000000000000000"
	secret := "secrets:\n  - name: S\n    from: {env: S}\n"
	broker := func(more string) string {
		return "mode: public\nbroker: [{host: git.example, api: 'https://git.example', app: 1, installation: 1, key: {file: k}, " + more + "}]\n"
	}
	for _, c := range []struct {
		name, doc string
		line      int
		want      string
	}{
		{"no mode", "name: x\n", 1, `the key "mode" is missing`},
		{"mode by another name", "mode: allow-list\n", 2, `unknown value "allow-list"; did you mean "allowlist"?`},
		{"nonsense mode", "mode: xyzzy\n", 2, "one of public, no-network, denylist, allowlist"},
		{"mistyped key", "mode: public\nalow: []\n", 3, `unknown key "alow"; did you mean "allow"?`},
		{"swapped letters", "mode: public\nservcies: []\n", 3, `did you mean "services"?`},
		{"underscore", "mode: public\non_failure: warn\n", 3, `did you mean "on-failure"?`},
		{"unknown key", "mode: public\nwxyz: 1\n", 3, "known here: version,"},
		{"duplicate key", "mode: public\nmode: public\n", 3, "given twice"},
		{"empty value", "mode: public\nallow:\n", 3, "allow: has no value"},
		{"empty element", "mode: denylist\nblock:\n  -\n", 4, "block[0]: has no value"},
		{"wrong type", "mode: public\nallow: github.com\n", 3, "allow: wants a list, not text"},
		{"entry as text", "mode: allowlist\nallow: [github.com]\n", 3, `allow[0]: an entry is a map, not text; write {host: "github.com"}`},
		{"number as text", "mode: public\nname: 5\n", 3, `wants text, not a whole number; write "5" in quotes`},
		{"date as text", "mode: public\nname: 2024-01-01\n", 3, "wants text, not a number or date"},
		{"version", "version: 2\nmode: public\n", 1, "version 2 is not one that this build reads"},
		{"evaluator", "mode: public\nevaluator: 2\n", 3, "version 2 is not one"},
		{"broken", "- a\n", 1, "not YAML"},
		{"long name", "mode: public\nname: " + strings.Repeat("x", 129) + "\n", 3, "at most 128"},
		{"control character", "mode: public\nname: \"a\\eb\"\n", 3, "control character"},

		{"host and cidr", "mode: allowlist\nallow: [{host: a.example, cidr: 10.0.0.0/8}]\n", 3, "exactly one of host, cidr and url; this one has 2"},
		{"no host", "mode: allowlist\nallow: [{ports: [443]}]\n", 3, "exactly one of host, cidr and url; this one has 0"},
		{"B10: *.", "mode: allowlist\nallow: [{host: '*.'}]\n", 3, "allow[0].host: \"*.\": *. has no name after it and matches nothing"},
		{"* alone", "mode: allowlist\nallow: [{host: '*'}]\n", 3, "* alone would mean every host"},
		{"B11: wildcard inside a label", "mode: allowlist\nallow: [{host: 'www*.com'}]\n", 3, "* stands only as a whole leading label"},
		{"wildcard in the middle", "mode: allowlist\nallow: [{host: 'a.*.com'}]\n", 3, "whole leading label"},
		{"NUL in a host", "mode: allowlist\nallow: [{host: \"a\\0b\"}]\n", 3, "control character"},
		{"space in a host", "mode: allowlist\nallow: [{host: 'a b'}]\n", 3, "white space"},
		{"percent in a host", "mode: allowlist\nallow: [{host: 'a%2eb'}]\n", 3, "percent"},
		{"URL as host", "mode: allowlist\nallow: [{host: 'https://a.example'}]\n", 3, "is a URL; use the key url"},
		{"path as host", "mode: allowlist\nallow: [{host: 'a.example/x'}]\n", 3, "use cidr for a range of addresses, url for a path"},
		{"range as host", "mode: allowlist\nallow: [{host: 10.0.0.0/8}]\n", 3, "use cidr"},
		{"zone", "mode: allowlist\nallow: [{host: 'fe80::1%eth0'}]\n", 3, "zone id"},
		{"the proxy's own name", "mode: allowlist\nallow: [{host: model.wallproof.internal}]\n", 3, "belong to the proxy itself"},
		{"wildcard below localhost", "mode: allowlist\nallow: [{host: '*.localhost'}]\n", 3, "denied unless each is named exactly"},
		{"exact on allow", "mode: allowlist\nallow: [{host: a.example, exact: true}]\n", 3, "is exact already"},
		{"exact on a wildcard", "mode: denylist\nblock: [{host: '*.a.example', exact: true}]\n", 3, "exact goes with the name of one host"},
		{"exact on a range", "mode: denylist\nblock: [{cidr: 10.0.0.0/8, exact: true}]\n", 3, "exact goes with the name of one host"},
		{"host bits", "mode: allowlist\nallow: [{cidr: 10.1.2.3/8}]\n", 3, "has bits set beyond its length; write 10.0.0.0/8"},
		{"not a range", "mode: allowlist\nallow: [{cidr: github.com}]\n", 3, "is not a range of addresses"},
		{"mapped range", "mode: allowlist\nallow: [{cidr: '::ffff:0.0.0.0/90'}]\n", 3, "write the IPv4 range"},
		{"url with ports", "mode: allowlist\nallow: [{url: 'https://a.example/', ports: [1]}]\n", 3, "ports does not go with it"},
		{"url with query", "mode: allowlist\nallow: [{url: 'https://a.example/?x'}]\n", 3, "no query"},
		{"url with user", "mode: allowlist\nallow: [{url: 'https://a@b.example/'}]\n", 3, "user name before the host"},
		{"url with wildcard path", "mode: allowlist\nallow: [{url: 'https://b.example/x/*'}]\n", 3, `write "/x"`},
		{"ambiguous path", "mode: allowlist\nallow: [{host: a.example, paths: ['/a/..;/b']}]\n", 3, "dot segment with parameters"},
		{"path of nothing", "mode: denylist\nblock: [{host: a.example, paths: ['/;x']}]\n", 3, "nothing but parameters"},
		{"relative path", "mode: allowlist\nallow: [{host: a.example, paths: [x]}]\n", 3, "does not begin with a slash"},
		{"empty ports", "mode: allowlist\nallow: [{host: a.example, ports: []}]\n", 3, "empty list, which would match nothing"},
		{"port 0", "mode: allowlist\nallow: [{host: a.example, ports: [0]}]\n", 3, "0 is not between 1 and 65535"},
		{"ports backwards", "mode: allowlist\nallow: [{host: a.example, ports: ['20-10']}]\n", 3, "not a port or a range"},
		{"method", "mode: allowlist\nallow: [{host: a.example, methods: ['G T']}]\n", 3, "is not an HTTP method"},
		{"pin on block", "mode: denylist\nblock: [{host: a.example, pin: {digests: ['sha256:" + zero + "']}}]\n", 3, "a block entry has no pin"},
		{"empty pin", "mode: allowlist\nallow: [{host: a.example, pin: {}}]\n", 3, "digests, a lockfile, or both"},
		{"weak digest", "mode: allowlist\nallow: [{host: a.example, pin: {digests: ['sha1:00']}}]\n", 3, "is not a digest"},

		{"public with blocks", "mode: public\nblock: [{host: a.example}]\n", 3, "use mode denylist"},
		{"no-network with entries", "mode: no-network\nallow: [{host: a.example}]\n", 3, "no-network has no entries"},
		{"no-network with packs", "mode: no-network\npacks: [npm]\n", 3, "no-network has no entries"},
		{"empty allowlist", "mode: allowlist\nallow: []\n", 0, "with nothing allowed reaches nothing"},
		{"empty allowlist in a phase", "mode: public\nphases:\n  setup: {mode: allowlist}\n", 4, "phases.setup: mode allowlist with nothing allowed"},
		{"agent as a phase", "mode: public\nphases: {agent: {mode: public}}\n", 3, "the document's own mode and entries are the agent phase"},
		{"warn with a default of deny", "mode: allowlist\non-failure: warn\nallow: [{host: a.example}]\n", 0, "fails closed"},
		{"unknown pack", "mode: allowlist\npacks: [nmp]\n", 3, `did you mean "npm"?`},
		{"pack twice", "mode: allowlist\npacks: [npm, npm]\n", 3, "listed twice"},
		{"pinned forge", "mode: allowlist\npacks: [{name: github, pin: {lockfile: x}}]\n", 3, "is a forge"},

		{"secret in clear", "mode: public\nsecrets: [{name: S, from: hunter2}]\n", 3, "holds no secret, only where it is kept"},
		{"secret from nowhere", "mode: public\nsecrets: [{name: S}]\n", 3, `the key "from" is missing`},
		{"two sources", "mode: public\nsecrets: [{name: S, from: {env: A, file: b}}]\n", 3, "exactly one of env, file"},
		{"secret twice", "mode: public\n" + secret + "  - {name: S, from: {env: T}}\n", 6, "defined twice; the first is in line 4"},
		{"one placeholder for two", "mode: public\nsecrets: [{name: A, from: {env: A}, placeholder: xxxxxxxx}, {name: B, from: {env: B}, placeholder: xxxxxxxx}]\n", 3, "one placeholder"},
		{"short placeholder", "mode: public\nsecrets: [{name: A, from: {env: A}, placeholder: xxx}]\n", 3, "8 to 256"},
		{"GCP reference", "mode: public\nsecrets: [{name: A, from: {gcp: a/b}}]\n", 3, "projects/PROJECT"},
		{"vault without field", "mode: public\nsecrets: [{name: A, from: {vault: {path: a}}}]\n", 3, `the key "field" is missing`},
		{"rule without as", "mode: public\n" + secret + "    inject: [{host: a.example}]\n", 6, `the key "as" is missing`},
		{"header without name", "mode: public\n" + secret + "    inject: [{host: a.example, as: header}]\n", 6, `needs the key "header"`},
		{"bearer with header", "mode: public\n" + secret + "    inject: [{host: a.example, as: bearer, header: X}]\n", 6, `does not take the key "header"`},
		{"framing header", "mode: public\n" + secret + "    inject: [{host: a.example, as: header, header: content-length}]\n", 6, "is not the name of a header that may be set"},
		{"hop header", "mode: public\n" + secret + "    inject: [{host: a.example, as: header, header: proxy-authorization}]\n", 6, "is not the name of a header that may be set"},
		{"set and short form", "mode: public\n" + secret + "    inject: [{host: a.example, as: bearer, set: [{as: bearer}]}]\n", 6, "stand in its elements"},
		{"a header twice", "mode: public\n" + secret + "    inject: [{host: a.example, set: [{as: bearer}, {as: basic}]}]\n", 6, "sets the header Authorization twice"},
		{"unknown secret in set", "mode: public\n" + secret + "    inject: [{host: a.example, set: [{as: bearer, secret: T}]}]\n", 6, `there is no secret "T"`},
		{"rules of equal specificity", "mode: public\n" + secret + "    inject: [{host: a.example, as: bearer}]\n  - {name: T, from: {env: T}, inject: [{host: a.example, as: basic}]}\n", 7, "a second injection rule for a.example; the first is in line 6"},
		{"equal paths", "mode: public\n" + secret + "    inject: [{host: a.example, paths: [/x], as: bearer}, {host: a.example, paths: [/x/], as: basic}]\n", 6, "a second injection rule for a.example/x"},
		{"its own variable", "mode: public\n" + secret + "environment: {pass: [S]}\n", 4, "may not enter the sandbox"},

		{"broker without key", "mode: public\nbroker: [{host: g.example, api: 'https://g.example', app: 1, installation: 1, repositories: [{name: a/b}]}]\n", 3, `the key "key" is missing`},
		{"broker in clear", "mode: public\nbroker: [{host: g.example, api: 'http://g.example', app: 1, installation: 1, key: {file: k}, repositories: [{name: a/b}]}]\n", 3, "is not https"},
		{"broker for a wildcard", "mode: public\nbroker: [{host: '*.g.example', api: 'https://g.example', app: 1, installation: 1, key: {file: k}, repositories: [{name: a/b}]}]\n", 3, "one host by name"},
		{"no repositories", broker("repositories: []"), 3, "at least one repository"},
		{"bad repository", broker("repositories: [{name: b}]"), 3, "not a repository such as owner/name"},
		{"dots as repository", broker("repositories: [{name: a/..}]"), 3, "not a repository"},
		{"short ref", broker("repositories: [{name: a/b, push: [main]}]"), 3, "a full ref such as refs/heads/main"},
		{"star inside a ref", broker("repositories: [{name: a/b, push: ['refs/*/x']}]"), 3, "a full ref"},
		{"long lease", broker("lease: 2h, repositories: [{name: a/b}]"), 3, "not between 1m0s and 1h0m0s"},
		{"repository twice", broker("repositories: [{name: a/b}, {name: A/B.git}]"), 3, "brokered twice"},

		{"model in clear", "mode: public\nmodel: {api: openai, url: 'http://m.example', allow: [m]}\n", 3, "cleartext: true"},
		{"model without list", "mode: public\nmodel: {api: openai, url: 'https://m.example'}\n", 3, `the key "allow" is missing`},
		{"model with an empty list", "mode: public\nmodel: {api: openai, url: 'https://m.example', allow: []}\n", 3, "empty list"},
		{"model's secret", "mode: public\nmodel: {api: openai, url: 'https://m.example', allow: [m], secret: S}\n", 3, `there is no secret "S"`},
		{"open search behind a wall", "mode: no-network\nmodel: {api: openai, url: 'https://m.example', allow: [m], hosted-search: allow}\n", 3, "self-search"},
		{"variable", "mode: public\nenvironment: {set: {1A: x}}\n", 3, "not the name of an environment variable"},
		{"variable's value", "mode: public\nenvironment: {set: {A: 1}}\n", 3, `write "1" in quotes`},
		{"variable in two places", "mode: public\nenvironment: {set: {A: x}, pass: [A]}\n", 3, "stands under both set and pass"},
		{"service by tag", "mode: public\nservices: [{name: db, image: 'postgres:16', ports: [5432]}]\n", 3, "pinned by digest"},
		{"service called localhost", "mode: public\nservices: [{name: localhost, image: 'p@sha256:" + zero + "', ports: [5432]}]\n", 3, "not a name for a service"},
		{"service as host", "mode: allowlist\nallow: [{host: db}]\nservices: [{name: db, image: 'p@sha256:" + zero + "', ports: [5432]}]\n", 3, "is the name of a service"},
		{"linger for days", "mode: public\nlingering: {for: 25h}\n", 3, "not between 1s and 24h0m0s"},
		{"size", "mode: public\nlimits: {upload: 10MB}\n", 3, "not a size such as"},
		{"fraction of a second", "mode: public\nlimits: {duration: 1.5s}\n", 3, "whole seconds"},
		{"egress without port", "mode: public\negress: {agent: a.example, server-ca: {file: a}, client-cert: {file: b}, client-key: {file: c}}\n", 3, "port is missing"},
	} {
		doc := c.doc
		if !strings.HasPrefix(doc, "version") {
			doc = "version: 1\n" + doc
		}
		p, err := Parse("p.yaml", []byte(doc))
		if err == nil {
			t.Errorf("%s: accepted\n%s", c.name, doc)
			continue
		}
		if p != nil {
			t.Errorf("%s: refused but left a value", c.name)
		}
		var e *Error
		if !errors.As(err, &e) || e.File != "p.yaml" || e.Line != c.line || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant line %d and %q", c.name, err, c.line, c.want)
		}
	}
}

func TestParseRefusesWhatIsNoMap(t *testing.T) {
	for _, doc := range []string{"- a\n", "5\n", "[]", "text"} {
		if p, err := Parse("p", []byte(doc)); err == nil || p != nil || !strings.Contains(err.Error(), "a policy is a map") {
			t.Errorf("%q: %v", doc, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"blocked model", "mode: denylist\nblock: [{host: m.example}]\nmodel: {api: openai, url: 'https://api.m.example', allow: [m]}\n", "test.yaml:4:8: the model's host api.m.example is blocked by m.example (line 3)"},
		{"unreachable broker", "mode: allowlist\nallow: [{host: a.example}]\nbroker: [{host: g.example, api: 'https://g.example', app: 1, installation: 1, key: {file: k}, repositories: [{name: a/b}]}]\n", "the broker's host g.example is not reachable at port 443 (default-deny)"},
		{"lockfile not loaded", "mode: allowlist\npacks: [{name: npm, pin: {lockfile: package-lock.json}}]\n", "has not been loaded"},
	} {
		p := mustParse(t, c.doc)
		if e, err := Compile(p); err == nil || e != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What does not change what is reachable or injected does not change the hash;
// what does, does.
func TestDigest(t *testing.T) {
	base := `version: 1
name: one
mode: allowlist
packs: [npm]
allow:
  - {host: a.example, ports: [443, 8443], methods: [GET, HEAD], paths: [/x, /y]}
  - {host: "*.b.example"}
  - {host: c.b.example}
  - {cidr: 10.0.0.0/8}
block:
  - {url: "https://d.example/p"}
secrets:
  - {name: S, from: {env: S}, inject: [{host: a.example, as: bearer}, {host: x.b.example, set: [{as: header, header: X-A}, {as: header, header: X-B, secret: T}]}]}
  - {name: T, from: {file: t}}
`
	digest := func(doc string) string {
		t.Helper()
		d, err := mustParse(t, doc).Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(base)
	edit := func(old, new string) string {
		t.Helper()
		if !strings.Contains(base, old) {
			t.Fatalf("the base has no %q", old)
		}
		return strings.Replace(base, old, new, 1)
	}
	for name, doc := range map[string]string{
		"name":                 edit("name: one", "name: two"),
		"no name":              edit("name: one\n", ""),
		"comment":              edit("allow:", "allow: # hello"),
		"order of keys":        edit("{host: a.example, ports: [443, 8443],", "{ports: [443, 8443], host: a.example,"),
		"order of values":      edit("ports: [443, 8443], methods: [GET, HEAD], paths: [/x, /y]", "ports: [8443, 443], methods: [head, get], paths: [/y, /x]"),
		"case":                 edit("host: a.example, ports", "host: A.Example., ports"),
		"ports as text":        edit("ports: [443, 8443]", "ports: [\"443-443\", \"8443\"]"),
		"spelling":             edit("/x, /y", "/x/, /%79"),
		"repeated":             edit("  - {host: c.b.example}\n", "  - {host: c.b.example}\n  - {host: c.b.example, ports: [443]}\n"),
		"split paths":          edit("  - {host: c.b.example}\n", "  - {host: c.b.example}\n  - {host: a.example, ports: [443, 8443], methods: [GET, HEAD], paths: [/x]}\n"),
		"url as host":          edit(`{url: "https://d.example/p"}`, `{host: d.example, exact: true, paths: [/p]}`),
		"source":               edit("from: {env: S}", "from: {file: other}"),
		"pack written out":     edit("packs: [npm]\nallow:\n", "allow:\n  - {host: registry.yarnpkg.com, methods: [GET, HEAD]}\n  - {host: registry.npmjs.org, methods: [GET, HEAD]}\n"),
		"order of entries":     edit("  - {host: \"*.b.example\"}\n  - {host: c.b.example}\n", "  - {host: c.b.example}\n  - {host: \"*.b.example\"}\n"),
		"defaults written out": edit("mode: allowlist\n", "mode: allowlist\non-failure: close\nphases: {setup: {mode: public}, verifier: {mode: public}}\n"),
		"rule under its other secret": edit(`, {host: x.b.example, set: [{as: header, header: X-A}, {as: header, header: X-B, secret: T}]}]}
  - {name: T, from: {file: t}}`, `]}
  - {name: T, from: {file: t}, inject: [{host: x.b.example, set: [{as: header, header: X-B}, {as: header, header: x-a, secret: S}]}]}`),
	} {
		if got := digest(doc); got != want {
			t.Errorf("%s changes the hash", name)
		}
	}
	json := `{"version":1,"mode":"allowlist","packs":["npm"],"allow":[{"host":"a.example","ports":[443,8443],"methods":["GET","HEAD"],"paths":["/x","/y"]},
{"host":"*.b.example"},{"host":"c.b.example"},{"cidr":"10.0.0.0/8"}],"block":[{"url":"https://d.example/p"}],"secrets":[{"name":"S","from":{"env":"S"},
"inject":[{"host":"a.example","as":"bearer"},{"host":"x.b.example","set":[{"as":"header","header":"X-A"},{"as":"header","header":"X-B","secret":"T"}]}]},{"name":"T","from":{"file":"t"}}]}`
	p, err := Parse("p", []byte(json))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Digest(); err != nil || got != want {
		t.Errorf("as JSON the hash is %s, %v", got, err)
	}

	seen := map[string]string{want: "base"}
	for name, doc := range map[string]string{
		"a host more":      edit("  - {host: c.b.example}\n", "  - {host: c.b.example}\n  - {host: e.example}\n"),
		"a redundant host": edit("  - {host: c.b.example}\n", "  - {host: c.b.example}\n  - {host: e.b.example}\n"),
		"a host less":      edit("  - {host: \"*.b.example\"}\n", ""),
		"a port":           edit("8443", "8444"),
		"a method":         edit("[GET, HEAD]", "[GET]"),
		"no methods":       edit("methods: [GET, HEAD], ", ""),
		"a path":           edit("/x, /y", "/x, /z"),
		"a range":          edit("10.0.0.0/8", "10.0.0.0/9"),
		"a pack":           edit("[npm]", "[npm, go]"),
		"a block less":     edit("block:\n  - {url: \"https://d.example/p\"}\n", ""),
		"a wider block":    edit("https://d.example/p", "https://d.example/"),
		"mode":             edit("mode: allowlist", "mode: denylist"),
		"a secret's name":  edit("  - {name: T, from: {file: t}}\n", "  - {name: T, from: {file: t}}\n  - {name: U, from: {file: t}}\n"),
		"where it goes":    edit("{host: a.example, as: bearer}", "{host: c.b.example, as: bearer}"),
		"how it goes":      edit("{host: a.example, as: bearer}", "{host: a.example, as: basic}"),
		"only replaced":    edit("{host: a.example, as: bearer}", "{host: a.example, as: bearer, replace-only: true}"),
		"in clear":         edit("{host: a.example, as: bearer}", "{host: a.example, as: bearer, cleartext: true}"),
		"under a path":     edit("{host: a.example, as: bearer}", "{host: a.example, as: bearer, paths: [/v1]}"),
		"set-up":           edit("mode: allowlist\n", "mode: allowlist\nphases: {setup: {mode: no-network}}\n"),
		"environment":      edit("mode: allowlist\n", "mode: allowlist\nenvironment: {pass: [LANG]}\n"),
		"limits":           edit("mode: allowlist\n", "mode: allowlist\nlimits: {requests: 5}\n"),
		"lingering":        edit("mode: allowlist\n", "mode: allowlist\nlingering: {for: 1h}\n"),
		"model":            edit("mode: allowlist\n", "mode: allowlist\nmodel: {api: openai, url: 'https://m.example', allow: [m]}\n"),
		"exact":            edit(`{url: "https://d.example/p"}`, `{host: d.example, paths: [/p]}`),
	} {
		got := digest(doc)
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q have one hash", name, other)
		}
		seen[got] = name
	}
}

func TestParseCanonicalRefuses(t *testing.T) {
	p := mustParse(t, "mode: allowlist\nallow: [{host: b.example}, {host: a.example, ports: [443, 80]}]\n")
	good, err := p.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseCanonical(good); err != nil {
		t.Fatal(err)
	}
	s := string(good)
	for name, bad := range map[string]string{
		"white space":        s + "\n",
		"order of keys":      strings.Replace(s, `"mode":"allowlist","on-failure":"close"`, `"on-failure":"close","mode":"allowlist"`, 1),
		"order of entries":   strings.Replace(s, `{"host":"a.example","ports":[80,443]},{"host":"b.example","ports":[443]}`, `{"host":"b.example","ports":[443]},{"host":"a.example","ports":[80,443]}`, 1),
		"order of ports":     strings.Replace(s, "[80,443]", "[443,80]", 1),
		"case":               strings.Replace(s, "a.example", "A.example", 1),
		"twice":              strings.Replace(s, `{"host":"b.example","ports":[443]}`, `{"host":"b.example","ports":[443]},{"host":"b.example","ports":[443]}`, 1),
		"a default left out": strings.Replace(s, `"on-failure":"close",`, "", 1),
		"ports left out":     strings.Replace(s, `,"ports":[443]`, "", 1),
		"a name":             strings.Replace(s, `"mode":"allowlist"`, `"mode":"allowlist","name":"x"`, 1),
		"YAML":               "version: 1\nmode: public\n",
		"cut":                s[:len(s)-1],
		"empty":              "",
		"evaluator left out": strings.Replace(s, `"evaluator":1,`, "", 1),
	} {
		if bad == s {
			t.Fatalf("%s: nothing was changed", name)
		}
		if got, err := ParseCanonical([]byte(bad)); err == nil || got != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A thousand kinds of host in a document are all there.
func TestBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nmode: allowlist\nallow:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "  - {host: h%d.example}\n", i)
	}
	p, err := Parse("p.yaml", []byte(b.String()))
	if err != nil || len(p.Allow) != 20_000 {
		t.Fatalf("%v", err)
	}
	for _, bad := range []string{
		"version: 1\nmode: allowlist\nallow: [{host: a.example, ports: [" + strings.TrimSuffix(strings.Repeat("1,", MaxPorts+1), ",") + "]}]\n",
		"version: 1\nmode: allowlist\nallow: [{host: a.example, paths: [" + strings.TrimSuffix(strings.Repeat("/a,", MaxPaths+1), ",") + "]}]\n",
		"version: 1\nmode: public\nname: " + strings.Repeat("x", MaxText+1) + "\n",
		"version: 1\nmode: public\nenvironment: {set: {A: " + strings.Repeat("x", MaxValue+1) + "}}\n",
	} {
		if _, err := Parse("p.yaml", []byte(bad)); err == nil {
			t.Errorf("accepted: %.80s…", bad)
		}
	}
	big := mustParse(t, "mode: denylist\n")
	big.Block = make([]Entry, MaxEntries+1)
	if _, err := Compile(big); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many entries: %v", err)
	}
}
