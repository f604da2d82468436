package review

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy"
)

func mustParse(t testing.TB, doc string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte("version: 1\n"+doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return p
}

func TestLint(t *testing.T) {
	const zero = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for _, c := range []struct {
		name, doc string
		want      []string // "code entry line"
		says      string
	}{
		{"nothing to say", "mode: allowlist\nallow:\n- host: github.com\n- host: pypi.org\n", nil, ""},
		{"dead", "mode: allowlist\nallow:\n- host: a.com\n- host: b.com\nblock:\n- host: a.com\n", []string{"dead a.com 4"}, "the block entry a.com (line 7) wins"},
		{"dead by a tree", "mode: allowlist\nallow:\n- host: '*.a.com'\n- host: a.com\nblock:\n- host: a.com\n", []string{"dead *.a.com 4", "apex-not-covered *.a.com 4", "dead a.com 5"}, ""},
		{"not dead: only one port is blocked", "mode: allowlist\nallow:\n- {host: a.com, ports: [80, 443]}\nblock:\n- {host: a.com, ports: [80]}\n", nil, ""},
		{"shadowed", "mode: allowlist\nallow:\n- host: '*.a.com'\n- host: b.a.com\n- host: a.com\n", []string{"shadowed b.a.com 5"}, "the wider entry *.a.com (line 4)"},
		{"not shadowed: other ports", "mode: allowlist\nallow:\n- host: '*.a.com'\n- {host: b.a.com, ports: [80]}\n- host: a.com\n", nil, ""},
		{"narrower methods are shadowed", "mode: allowlist\nallow:\n- host: '*.a.com'\n- {host: b.a.com, methods: [GET]}\n- host: a.com\n", []string{"shadowed b.a.com 5"}, "or block what it was meant to exclude"},
		{"not shadowed: a block lies between", "mode: allowlist\nallow:\n- host: '*.a.com'\n- host: x.b.a.com\n- host: a.com\nblock:\n- host: b.a.com\n", nil, ""},
		{"twice", "mode: allowlist\nallow:\n- host: a.com\n- host: a.com\n", []string{"shadowed a.com 5"}, ""},
		{"in a pack", "mode: allowlist\npacks: [npm]\nallow:\n- {host: registry.npmjs.org, methods: [GET]}\n", []string{"shadowed registry.npmjs.org 5"}, "of the pack npm"},
		{"wider than the pack", "mode: allowlist\npacks: [npm]\nallow:\n- {host: registry.npmjs.org}\n", nil, ""},
		{"paths", "mode: allowlist\nallow:\n- url: https://a.com/x\n- url: https://a.com/x/y\n", []string{"shadowed a.com/x/y 5"}, ""},
		{"paths differ in case", "mode: allowlist\nallow:\n- url: https://a.com/x\n- url: https://a.com/X/y\n", nil, ""},
		{"blocked paths do not", "mode: denylist\nblock:\n- url: https://a.com/x\n- url: https://a.com/X/y\n", []string{"shadowed a.com/X/y 5"}, ""},
		{"blocks shadowed by a tree", "mode: denylist\nblock:\n- host: a.com\n- {host: b.a.com, exact: true}\n- url: https://a.com/x\n", []string{"shadowed b.a.com 5", "shadowed a.com/x 6"}, ""},
		{"a tree is not shadowed by its apex", "mode: denylist\nblock:\n- {host: a.com, exact: true}\n- host: a.com\n", []string{"shadowed a.com 4"}, ""},
		{"no effect: allow under public", "mode: public\nallow:\n- host: a.com\n", []string{"no-effect a.com 4"}, "mode public allows this anyway"},
		{"no effect: allow under denylist", "mode: denylist\nallow:\n- host: a.com\n- host: ok.b.com\nblock:\n- host: b.com\n", []string{"no-effect a.com 4"}, ""},
		{"no effect: block under allowlist", "mode: allowlist\nallow:\n- host: a.com\nblock:\n- host: b.com\n", []string{"no-effect b.com 6"}, "mode allowlist denies this anyway"},
		{"a blocked range matters to names", "mode: allowlist\nallow:\n- host: a.com\nblock:\n- cidr: 8.8.8.0/24\n", nil, ""},
		{"a blocked special range does not", "mode: allowlist\nallow:\n- host: a.com\nblock:\n- cidr: 10.0.0.0/8\n", []string{"no-effect 10.0.0.0/8 6"}, ""},
		{"a pin matters", "mode: public\nallow:\n- {host: a.com, pin: {digests: ['" + zero + "']}}\n", nil, ""},
		{"B12: nothing below it", "mode: allowlist\nallow:\n- host: '*.x'\n", []string{"matches-nothing *.x 4"}, "x is no top-level domain"},
		{"never exists", "mode: allowlist\nallow:\n- host: a.invalid\n", []string{"matches-nothing a.invalid 4"}, ""},
		{"unknown domain", "mode: allowlist\nallow:\n- host: github.con\n", []string{"unknown-domain github.con 4"}, "con is no top-level domain"},
		{"a name of one's own", "mode: allowlist\nallow:\n- host: git.corp.internal\n- host: '*.packages.example'\n- host: packages.example\n- host: registry\n", nil, ""},
		{"a top-level domain", "mode: allowlist\nallow:\n- host: '*.com'\n", []string{"over-broad *.com 4"}, "anybody can have a name below com"},
		{"a public suffix", "mode: allowlist\nallow:\n- host: '*.github.io'\n- host: '*.co.uk'\n", []string{"over-broad *.github.io 4", "apex-not-covered *.github.io 4", "over-broad *.co.uk 5", "apex-not-covered *.co.uk 5"}, ""},
		{"apex", "mode: allowlist\nallow:\n- host: '*.a.com'\n", []string{"apex-not-covered *.a.com 4"}, "but not a.com itself"},
		{"everything", "mode: allowlist\nallow:\n- cidr: 0.0.0.0/0\n- cidr: 10.0.0.0/8\n- cidr: '::/0'\n", []string{"over-broad 0.0.0.0/0 4", "opens-range 10.0.0.0/8 5", "over-broad ::/0 6"}, ""},
		{"metadata", "mode: public\nallow:\n- cidr: 169.254.169.254/32\n", []string{"opens-metadata 169.254.169.254/32 4"}, "hands out credentials"},
		{"requests of a range", "mode: allowlist\nallow:\n- {cidr: 8.8.8.0/24, methods: [GET]}\n", []string{"range-and-requests 8.8.8.0/24 4"}, ""},
		{"other phases", "mode: public\nphases:\n  setup:\n    mode: allowlist\n    allow:\n    - host: '*.com'\n", []string{"over-broad *.com 7"}, ""},
		{"secrets", `mode: allowlist
allow:
- host: a.com
secrets:
- name: UNUSED
  from: {env: U}
- name: S
  from: {env: S}
  inject:
  - {host: a.com, as: bearer}
  - {host: b.com, as: bearer}
  - {host: a.com, ports: [80], cleartext: true, as: bearer}
`, []string{"unused-secret UNUSED 6", "unreached-rule b.com 12", "unreached-rule a.com 13", "cleartext a.com 13"}, ""},
		{"a model's secret is used", "mode: no-network\nsecrets: [{name: S, from: {env: S}}]\nmodel: {api: openai, url: 'https://m.com', secret: S, allow: [m]}\n", nil, ""},
		{"model only", "mode: allowlist\nmodel: {api: openai, url: 'https://m.com', allow: [m], self-search: [m]}\n", []string{"model-only model.wallproof.internal 3", "search-override m 3"}, ""},
		{"push everywhere", "mode: public\nbroker:\n- host: g.com\n  api: https://g.com\n  app: 1\n  installation: 1\n  key: {file: k}\n  repositories:\n  - {name: a/b, push: [refs/heads/*]}\n", []string{"wide-push a/b 10"}, ""},
		{"environment", "mode: public\nenvironment:\n  set: {MY_TOKEN: x, CI: '1'}\n  pass: [AWS_SECRET_ACCESS_KEY, LANG]\n  ask: [OPENAI_API_KEY]\n", []string{"key-like-variable AWS_SECRET_ACCESS_KEY 0", "key-like-variable OPENAI_API_KEY 0", "key-like-variable MY_TOKEN 4"}, ""},
		{"fails open", "mode: public\non-failure: warn\n", []string{"fails-open on-failure: warn 0"}, ""},
	} {
		findings, err := Lint(mustParse(t, c.doc))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got, said []string
		for _, f := range findings {
			got = append(got, fmt.Sprintf("%s %s %d", f.Code, f.Entry, f.Line))
			said = append(said, f.Message)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if !strings.Contains(strings.Join(said, "\n"), c.says) {
			t.Errorf("%s: said %q, want %q", c.name, said, c.says)
		}
	}
	if _, err := Lint(mustParse(t, "mode: denylist\nblock: [{host: m.com}]\nmodel: {api: openai, url: 'https://m.com', allow: [m]}\n")); err == nil {
		t.Error("a policy that contradicts itself has findings")
	}
}

// Removing an entry that Lint calls useless changes no decision: the promise
// behind the three codes, on many small policies.
func TestUselessEntriesAreUseless(t *testing.T) {
	entries := []string{
		"{host: a.com}", "{host: '*.a.com'}", "{host: b.a.com}", "{host: '*.b.a.com'}", "{host: a.com, ports: [80, 443]}",
		"{host: b.a.com, methods: [GET]}", "{host: a.com, paths: [/x]}", "{host: '*.a.com', paths: [/x/y]}", "{cidr: 8.8.0.0/16}", "{cidr: 8.8.8.0/24}",
	}
	probes := []string{}
	for _, h := range []string{"a.com", "b.a.com", "c.a.com", "x.b.a.com", "other.org", "8.8.8.8", "8.8.9.9"} {
		for _, port := range []string{"80", "443", "8080"} {
			for _, path := range []string{"/", "/x", "/x/y", "/x/y/z"} {
				probes = append(probes, "GET https://"+h+":"+port+path, "POST https://"+h+":"+port+path)
			}
		}
	}
	decisions := func(p *policy.Policy) string {
		e, err := policy.Compile(p)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, probe := range probes {
			method, url, _ := strings.Cut(probe, " ")
			b.WriteString(e.ExplainRequest(method, url).Verdict.String()[:1])
		}
		return b.String()
	}
	useless := 0
	for i := range entries {
		for j := range entries {
			for k := range entries {
				if i == j || j == k || i == k {
					continue
				}
				mode := []string{"allowlist", "denylist"}[(i+j+k)%2]
				p := mustParse(t, "mode: "+mode+"\nallow:\n- "+entries[i]+"\n- "+entries[j]+"\nblock:\n- "+entries[k]+"\n")
				findings, err := Lint(p)
				if err != nil {
					t.Fatal(err)
				}
				all := decisions(p)
				bad := map[int]bool{}
				for _, f := range findings {
					if f.Code == CodeDead || f.Code == CodeShadowed || f.Code == CodeNoEffect {
						bad[f.Line] = true
					}
				}
				for line, without := range map[int]func(q *policy.Policy){
					4: func(q *policy.Policy) { q.Allow = q.Allow[1:] },
					5: func(q *policy.Policy) { q.Allow = q.Allow[:1] },
					7: func(q *policy.Policy) { q.Block = nil },
				} {
					q := *p
					without(&q)
					same := decisions(&q) == all
					if bad[line] {
						useless++
						if !same {
							t.Errorf("line %d is called useless but is not:\n%s", line, p.Format())
						}
					}
				}
			}
		}
	}
	if useless < 100 {
		t.Errorf("only %d useless entries were found", useless)
	}
}
