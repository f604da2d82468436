package importer

import (
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/review"
)

// The bullets of the vault proxy and of the task network policy that a policy
// decides, each as a row named after it. What the proxy, the driver or the battery
// has to do for them is tested there.

func vaultOf(t *testing.T, doc string) *policy.Evaluator {
	t.Helper()
	r, err := Vault("vault.yaml", []byte(doc))
	return compile(t, r, err)
}

func taskOf(t *testing.T, doc string) *policy.Evaluator {
	t.Helper()
	r, err := Task("task.yaml", []byte(doc), nil)
	return compile(t, r, err)
}

func expect(t *testing.T, e *policy.Evaluator, url, want string) {
	t.Helper()
	x := e.Explain(url)
	if got := strings.TrimSpace(x.Verdict.String() + " " + strings.Join(x.Secrets, " ")); got != want {
		t.Errorf("%s: %s (%s), want %s", url, got, x.Reason, want)
	}
}

func TestVaultProxyBullets(t *testing.T) {
	const secrets = "secrets: [{name: S, from: {env: S}}, {name: T, from: {env: T}}]\n"
	t.Run("a vault is named secrets, injection rules and a host policy with a default", func(t *testing.T) {
		e := vaultOf(t, "vault: v\ndefault: block\n"+secrets+"rules: [{host: a.example, secret: S, header: X-Key}, {host: b.example, secret: T, query: k}]\nhosts: {allow: [a.example, b.example, c.example]}\n")
		expect(t, e, "https://a.example/", "allow S")
		expect(t, e, "https://b.example/", "allow T")
		expect(t, e, "https://c.example/", "allow")
		expect(t, e, "https://d.example/", "deny")
	})
	t.Run("per request: blocked, else the first rule that matches, else forward", func(t *testing.T) {
		e := vaultOf(t, "vault: v\ndefault: allow\n"+secrets+"rules: [{host: a.x.example, secret: S, header: X}, {host: '*.x.example', secret: T, header: X}]\nhosts: {block: [b.x.example]}\n")
		expect(t, e, "https://a.x.example/", "allow S")
		expect(t, e, "https://c.x.example/", "allow T")
		expect(t, e, "https://b.x.example/", "deny")
		expect(t, e, "https://other.example/", "allow")
	})
	t.Run("a blocked host is blocked exactly", func(t *testing.T) {
		e := vaultOf(t, "vault: v\ndefault: allow\nhosts: {block: [b.example]}\n")
		expect(t, e, "https://b.example/", "deny")
		expect(t, e, "https://www.b.example/", "allow")
	})
	t.Run("routing is chosen from the vault, never directly", func(t *testing.T) {
		if _, err := Vault("v", []byte("vault: v\ndefault: allow\nrouting: selective\n")); err == nil {
			t.Error("a key for the routing is accepted")
		}
	})
	t.Run("a failure to enforce stops the run unless the default is allow and the vault says so", func(t *testing.T) {
		if p := vaultOf(t, "vault: v\ndefault: allow\n").Policy(); p.OnFailure != policy.FailClosed {
			t.Error("fails open by itself")
		}
		if p := vaultOf(t, "vault: v\ndefault: allow\non_failure: continue\n").Policy(); p.OnFailure != policy.FailWarn {
			t.Error("continue is lost")
		}
	})
	t.Run("nothing to enforce is told apart", func(t *testing.T) {
		if !vaultOf(t, "vault: v\ndefault: allow\n").NothingToEnforce() || vaultOf(t, "vault: v\ndefault: allow\nhosts: {block: [a.example]}\n").NothingToEnforce() {
			t.Error("nothing to enforce is not told apart")
		}
	})
	t.Run("an edit that newly needs catch-all says so", func(t *testing.T) {
		before, err1 := Vault("v", []byte("vault: v\ndefault: allow\nhosts: {block: [a.example]}\n"))
		after, err2 := Vault("v", []byte("vault: v\ndefault: allow\nhosts: {block: ['*.a.example']}\n"))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		changes, err := review.Diff(before.Policy, after.Policy)
		if err != nil {
			t.Fatal(err)
		}
		said := false
		for _, c := range changes {
			said = said || c.Subject == "routing" && c.After == string(policy.RoutingCatchAll)
		}
		if !said {
			t.Errorf("%+v", changes)
		}
	})
	t.Run("observed hosts can be promoted to allow entries", func(t *testing.T) {
		r, err := Vault("v", []byte("vault: v\ndefault: block\nhosts: {allow: [a.example]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := review.Suggest(r.Policy, strings.NewReader("{\"host\":\"new.example.com\",\"seen\":4}\n"))
		if err != nil || len(s.Allow) != 1 || s.Allow[0].Entry.Host != "new.example.com" {
			t.Errorf("%+v, %v", s, err)
		}
	})
	t.Run("a proxy may linger, bounded", func(t *testing.T) {
		if policy.MaxLingering != 24*time.Hour {
			t.Errorf("%s", policy.MaxLingering)
		}
	})
}

func TestTaskNetworkPolicyBullets(t *testing.T) {
	t.Run("public reaches the internet, except cloud metadata", func(t *testing.T) {
		e := taskOf(t, "network_mode: public\n")
		expect(t, e, "https://example.org/", "allow")
		expect(t, e, "http://169.254.169.254/", "deny")
		expect(t, e, "http://[fd00:ec2::254]/", "deny")
		expect(t, e, "http://metadata.google.internal/", "deny")
	})
	t.Run("no-network reaches nothing", func(t *testing.T) {
		expect(t, taskOf(t, "network_mode: no-network\n"), "https://example.org/", "deny")
	})
	t.Run("denylist: a blocked URL is that path and all under it, a blocked host its subdomains too", func(t *testing.T) {
		e := taskOf(t, "network_mode: denylist\nblocked_urls: ['https://a.example/x']\nblocked_hosts: [b.example]\n")
		expect(t, e, "https://a.example/x/y", "deny")
		expect(t, e, "http://a.example/x", "deny")
		expect(t, e, "https://a.example/xy", "allow")
		expect(t, e, "https://c.b.example/", "deny")
	})
	t.Run("allowlist: only the allowed hosts, and the task's own services", func(t *testing.T) {
		e := taskOf(t, "network_mode: allowlist\nallowed_hosts: [a.example]\nservices: [{name: db, image: 'p@sha256:"+strings.Repeat("0", 64)+"', ports: [5432]}]\n")
		expect(t, e, "https://a.example/", "allow")
		expect(t, e, "https://www.a.example/", "deny")
		expect(t, e, "http://db:5432/", "allow")
	})
	t.Run("set-up and verifier have phases of their own, the agent's policy is not theirs", func(t *testing.T) {
		e := taskOf(t, "network_mode: no-network\n")
		expect(t, e.Phase(policy.PhaseSetup), "https://example.org/", "allow")
		expect(t, e.Phase(policy.PhaseVerifier), "https://example.org/", "allow")
		expect(t, e.Phase(policy.PhaseVerifier), "http://169.254.169.254/", "deny")
	})
	t.Run("a policy that the sandbox cannot enforce is refused, never weakened", func(t *testing.T) {
		if err := taskOf(t, "network_mode: denylist\nblocked_hosts: [a.example]\n").EnforceableBy("d", []string{"public", "no-network"}); err == nil {
			t.Error("a driver without denylist takes one")
		}
	})
	t.Run("a variable that a task asks for enters only when named", func(t *testing.T) {
		r, err := Task("task.yaml", []byte("network_mode: public\nenv: [DATASET]\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		lookup := func(string) (string, bool) { return "v", true }
		if _, err := r.Policy.Enter(lookup, nil); err == nil {
			t.Error("it enters unnamed, or the run starts without it")
		}
		if got, err := r.Policy.Enter(lookup, []string{"DATASET"}); err != nil || len(got.Variables) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("web access restricted: hosted search is refused by default", func(t *testing.T) {
		for doc, want := range map[string]string{
			"version: 1\nmode: no-network\nmodel: {api: openai, url: 'https://m.example', allow: [m]}\n": policy.SearchRefuse,
			"version: 1\nmode: public\nmodel: {api: openai, url: 'https://m.example', allow: [m]}\n":     policy.SearchAllow,
		} {
			p, err := policy.Parse("p", []byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			e, err := policy.Compile(p)
			if err != nil || e.Policy().Model.HostedSearch != want {
				t.Errorf("%q: %v, want %s", doc, err, want)
			}
		}
	})
}
