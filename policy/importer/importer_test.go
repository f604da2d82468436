package importer

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy"
)

var update = flag.Bool("update", false, "write golden files")

// The examples of both forms, and what they become.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var r *Result
		if name := filepath.Base(f); strings.HasPrefix(name, "vault") {
			r, err = Vault(name, data)
		} else {
			r, err = Task(name, data, nil)
		}
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		got, path := r.Document(), strings.TrimSuffix(f, ".in.yaml")+".golden.yaml"
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v (run with -update to write it); got\n%s", path, err, got)
		}
		back, err := policy.Parse(path, got)
		if err != nil {
			t.Fatal(err)
		}
		a, err1 := back.Digest()
		b, err2 := r.Policy.Digest()
		if err := errors.Join(err1, err2); err != nil || a != b {
			t.Errorf("%s reads back to another policy: %v", path, err)
		}
	}
}

func compile(t *testing.T, r *Result, err error) *policy.Evaluator {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.Compile(r.Policy)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Each mode of a task reaches what the table of system C says.
func TestTaskModes(t *testing.T) {
	for _, c := range []struct {
		name, doc string
		reaches   map[string]bool
	}{
		{"public", "network_mode: public\n", map[string]bool{
			"https://example.org/": true, "http://example.org/": true, "http://169.254.169.254/": false, "http://metadata.google.internal/": false,
		}},
		{"no-network", "network_mode: no-network\n", map[string]bool{"https://example.org/": false}},
		{"denylist", "network_mode: denylist\nblocked_hosts: [evil.example]\nblocked_urls: ['https://example.org/papers/x', 'other.example/y']\n", map[string]bool{
			"https://evil.example/": false, "https://a.b.evil.example/": false, "http://evil.example/": false, "https://good.example/": true,
			"https://example.org/papers/x": false, "http://example.org/papers/x/y": false, "https://example.org/papers": true,
			"https://other.example/y": false, "https://other.example/z": true, "http://169.254.169.254/": false,
		}},
		{"allowlist", "network_mode: allowlist\nallowed_hosts: [pypi.org, '*.packages.example', db]\nservices: [{name: db, image: 'p@sha256:" + strings.Repeat("0", 64) + "', ports: [5432]}]\n", map[string]bool{
			"https://pypi.org/": true, "http://pypi.org/": true, "https://www.pypi.org/": false, "https://a.packages.example/": true,
			"https://packages.example/": false, "http://db:5432/": true, "https://other.example/": false,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Task("task.yaml", []byte(c.doc), nil)
			e := compile(t, r, err)
			for url, want := range c.reaches {
				if got := e.Explain(url); got.Allowed() != want {
					t.Errorf("%s: %s %s", url, got.Verdict, got.Reason)
				}
			}
		})
	}
	model, err := policy.Parse("m", []byte("version: 1\nmode: no-network\nmodel: {api: openai, url: 'https://m.example/v1', allow: [m]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Task("task.yaml", []byte("network_mode: allowlist\nallowed_hosts: []\n"), model.Model)
	e := compile(t, r, err)
	if !e.Explain("https://model.wallproof.internal/").Allowed() || e.Explain("https://m.example/").Allowed() {
		t.Error("an empty allowlist with a model does not admit only the model")
	}
	if len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "only the model") {
		t.Errorf("it does not say so: %q", r.Notes)
	}
}

// A vault's routing follows from what it holds, as system B's does.
func TestVaultRouting(t *testing.T) {
	secret := "secrets: [{name: S, from: {env: S}}]\n"
	for _, c := range []struct {
		name, doc string
		want      policy.Routing
	}{
		{"default allow, exact", "vault: v\ndefault: allow\n" + secret + "rules: [{host: a.example, secret: S, header: Authorization, as: bearer}]\nhosts: {block: [b.example]}\n", policy.RoutingSelective},
		{"block default", "vault: v\ndefault: block\nhosts: {allow: [a.example]}\n", policy.RoutingCatchAll},
		{"wildcard block", "vault: v\ndefault: allow\nhosts: {block: ['*.b.example']}\n", policy.RoutingCatchAll},
		{"wildcard rule", "vault: v\ndefault: allow\n" + secret + "rules: [{host: '*.a.example', secret: S, header: X-Key}]\n", policy.RoutingCatchAll},
	} {
		r, err := Vault("vault.yaml", []byte(c.doc))
		if got := compile(t, r, err).Routing(); got.Routing != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestVaultRules(t *testing.T) {
	doc := `vault: v
default: allow
secrets: [{name: A, from: {env: A}}, {name: B, from: {env: B}}, {name: my-key}]
rules:
  - {host: a.x.example, secret: A, header: Authorization, as: bearer}
  - {host: a.x.example, secret: B, header: Authorization, as: bearer}
  - {host: "*.x.example", secret: B, header: X-Key}
  - {host: q.example, secret: my-key, query: key}
  - {host: h.example, secret: A, header: X-Auth, as: bearer}
  - {host: b.example, secret: A, header: authorization, as: basic, username: robot}
`
	r, err := Vault("vault.yaml", []byte(doc))
	e := compile(t, r, err)
	for host, want := range map[string]string{
		"a.x.example": "A", "b.x.example": "B", "c.b.x.example": "B", "x.example": "", "q.example": "my-key", "h.example": "A", "b.example": "A",
	} {
		if got := strings.Join(e.Explain("https://"+host+"/").Secrets, " "); got != want {
			t.Errorf("%s gets %q, want %q", host, got, want)
		}
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"The rule for a.x.example in line 6 never applied: the one for a.x.example in line 5 comes first", "read from the variable MY_KEY"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name, kind, doc, want string
	}{
		{"unknown key", "task", "network_mode: public\nnetwork: x\n", "task:2:1: unknown key \"network\""},
		{"no mode", "task", "name: x\n", `the key "network_mode" is missing`},
		{"mode", "task", "network_mode: open\n", "task:1:15: network_mode: unknown value"},
		{"empty allowlist", "task", "network_mode: allowlist\nallowed_hosts: []\n", "task:2:16: an empty allowlist reaches nothing"},
		{"allowlist without list", "task", "network_mode: allowlist\n", "an empty allowlist reaches nothing"},
		{"ignored list", "task", "network_mode: public\nblocked_hosts: [a.example]\n", "task:2:17: network_mode public has no blocked_hosts"},
		{"ignored urls", "task", "network_mode: allowlist\nallowed_hosts: [a.example]\nblocked_urls: [a.example/x]\n", "has no blocked_urls"},
		{"ignored allow", "task", "network_mode: denylist\nallowed_hosts: [a.example]\n", "has no allowed_hosts"},
		{"everything", "task", "network_mode: allowlist\nallowed_hosts: ['*']\n", "every host"},
		{"URL with query", "task", "network_mode: denylist\nblocked_urls: ['https://a.example/x?y=1']\n", "has a query"},
		{"tag", "task", "network_mode: public\nservices: [{name: db, image: 'postgres:16', ports: [1]}]\n", "pinned by digest"},
		{"no default", "vault", "vault: v\n", `the key "default" is missing`},
		{"value", "vault", "vault: v\ndefault: allow\nsecrets: [{name: S, value: hunter2}]\n", "vault:3:28: secrets[0].value: a policy holds no secret"},
		{"order", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}, {name: B, from: {env: B}}]\nrules:\n- {host: '*.x.example', secret: A, header: X}\n- {host: a.x.example, secret: B, header: X}\n", "vault:6:3: the rule for *.x.example in line 5 comes first and takes every host of this one for a.x.example"},
		{"order of wildcards", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}, {name: B, from: {env: B}}]\nrules:\n- {host: '*.x.example', secret: A, header: X}\n- {host: '*.a.x.example', secret: B, header: X}\n", "comes first and takes every host"},
		{"every host", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}]\nrules: [{host: '*', secret: A, header: X}]\n", "would send the secret A to whoever is asked"},
		{"unknown secret", "vault", "vault: v\ndefault: allow\nrules: [{host: a.example, secret: A, header: X}]\n", `vault:3:9: there is no secret "A"`},
		{"twice", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}, {name: A, from: {env: B}}]\n", "defined twice"},
		{"block everything", "vault", "vault: v\ndefault: block\n", "reaches nothing"},
		{"fail open", "vault", "vault: v\ndefault: block\non_failure: continue\nhosts: {allow: [a.example]}\n", "vault:3:13: on_failure: continue with default: block"},
		{"header and query", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}]\nrules: [{host: a.example, secret: A, header: X, query: y}]\n", "either header or query"},
		{"basic elsewhere", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}]\nrules: [{host: a.example, secret: A, header: X, as: basic}]\n", "into the header Authorization"},
		{"two sources", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A, file: b}}]\n", "exactly one of env, file"},
		{"framing header", "vault", "vault: v\ndefault: allow\nsecrets: [{name: A, from: {env: A}}]\nrules: [{host: a.example, secret: A, header: Host}]\n", "the translation of vault is not a policy"},
		{"not YAML", "vault", "a: [", "vault:1: not YAML"},
	} {
		var r *Result
		var err error
		if c.kind == "task" {
			r, err = Task("task", []byte(c.doc), nil)
		} else {
			r, err = Vault("vault", []byte(c.doc))
		}
		if err == nil || r != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Whatever is translated is a policy that can be enforced and reads back.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.in.yaml")
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
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, translate := range []func() (*Result, error){
			func() (*Result, error) { return Vault("v", data) },
			func() (*Result, error) { return Task("t", data, nil) },
		} {
			r, err := translate()
			if err != nil {
				if r != nil {
					t.Fatal("refused, but left a value")
				}
				continue
			}
			if _, err := policy.Compile(r.Policy); err != nil {
				t.Fatalf("%v\n%s", err, r.Document())
			}
			if _, err := policy.Parse("again", r.Document()); err != nil {
				t.Fatalf("%v\n%s", err, r.Document())
			}
		}
	})
}
