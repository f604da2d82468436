package review

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy"
)

func diffLines(t *testing.T, before, after string) []string {
	t.Helper()
	changes, err := Diff(mustParse(t, before), mustParse(t, after))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range changes {
		phase := ""
		if c.Phase != "" && c.Phase != policy.PhaseAgent {
			phase = string(c.Phase) + " "
		}
		out = append(out, fmt.Sprintf("%s%s %s: %s | %s → %s", phase, c.Kind, c.Subject, c.Detail, c.Before, c.After))
	}
	return out
}

func TestDiff(t *testing.T) {
	inject := func(s string) string {
		return "mode: public\nsecrets: [{name: S, from: {env: S}, inject: [" + s + "]}]\n"
	}
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", "mode: public\n", "mode: public\nname: other\n", nil},
		{"a host", "mode: allowlist\nallow: [{host: a.com}]\n", "mode: allowlist\nallow: [{host: a.com}, {host: b.com}]\n",
			[]string{"reachable b.com: port 443 | default-deny → allow-entry b.com (line 3)"}},
		{"a host gone", "mode: allowlist\nallow: [{host: a.com}, {host: b.com}]\n", "mode: allowlist\nallow: [{host: a.com}]\n",
			[]string{"unreachable b.com: port 443 | allow-entry b.com (line 3) → default-deny"}},
		{"a redundant host", "mode: allowlist\nallow: [{host: '*.a.com'}]\n", "mode: allowlist\nallow: [{host: '*.a.com'}, {host: b.a.com}]\n",
			[]string{"changed entries: written differently; every decision is the same | sha256:"}},
		{"a wildcard", "mode: allowlist\nallow: [{host: b.a.com}]\n", "mode: allowlist\nallow: [{host: '*.a.com'}]\n",
			[]string{"reachable *.a.com: port 443 | default-deny → allow-entry *.a.com (line 3)"}},
		{"ports and methods", "mode: allowlist\nallow: [{host: a.com, methods: [GET, HEAD]}]\n", "mode: allowlist\nallow: [{host: a.com, ports: [443, '8000-8010']}]\n",
			[]string{
				"reachable a.com: ports 8000-8010 | port a.com (line 3) → allow-entry a.com (line 3)",
				"reachable a.com: port 443, methods other than GET, HEAD | method a.com (line 3) → allow-entry a.com (line 3)",
			}},
		{"a path", "mode: allowlist\nallow: [{host: a.com}]\n", "mode: allowlist\nallow: [{host: a.com}]\nblock: [{url: 'https://a.com/x'}]\n",
			[]string{"unreachable a.com: port 443, under /x | allow-entry a.com (line 3) → block-entry a.com/x (line 4)"}},
		{"another mode", "mode: allowlist\nallow: [{host: a.com, ports: ['1-65535']}]\n", "mode: denylist\nblock: [{host: '*.a.com'}]\n",
			[]string{
				"reachable hosts that no entry names: every port | default-deny → default-allow",
				"reachable public IPv4 addresses that no entry names: every port | default-deny → default-allow",
				"reachable public IPv6 addresses that no entry names: every port | default-deny → default-allow",
				`changed mode:  | "allowlist" → "denylist"`,
			}},
		{"a private range", "mode: allowlist\nallow: [{host: a.com}]\n", "mode: allowlist\nallow: [{host: a.com}, {cidr: 10.0.0.0/9}]\n",
			[]string{
				"reachable 10.0.0.0/9: port 443 | private → allow-entry 10.0.0.0/9 (line 3)",
				"reachable names that resolve into 10.0.0.0/9: port 443 | private → opened 10.0.0.0/9 (line 3)",
			}},
		{"a blocked range", "mode: allowlist\nallow: [{host: a.com}]\n", "mode: allowlist\nallow: [{host: a.com}]\nblock: [{cidr: 8.8.8.0/24, ports: [443]}]\n",
			[]string{"unreachable names that resolve into 8.8.8.0/24: port 443 | public → block-entry 8.8.8.0/24 (line 4)"}},
		{"an injection", "mode: public\nsecrets: [{name: S, from: {env: S}}]\n", inject("{host: a.com, as: bearer}"),
			[]string{"injected a.com: port 443 |  → S as bearer Authorization"}},
		{"an injection gone", inject("{host: a.com, as: bearer}, {host: b.com, as: bearer}"), inject("{host: b.com, as: bearer}"),
			[]string{"not-injected a.com: port 443 | S as bearer Authorization → "}},
		{"another injection", inject("{host: a.com, paths: [/v1], as: bearer}"), inject("{host: a.com, paths: [/v1], as: bearer, replace-only: true}"),
			[]string{"changed a.com: port 443, under /v1 | S as bearer Authorization → S as bearer Authorization, replaced only"}},
		{"in clear", inject("{host: a.com, ports: [80], as: bearer}"), inject("{host: a.com, ports: [80], as: bearer, cleartext: true}"),
			[]string{"changed a.com: port 80 | S as bearer Authorization → S as bearer Authorization, in clear too"}},
		{"routing", inject("{host: a.com, as: bearer}"), inject("{host: a.com, as: bearer}, {host: '*.b.com', as: bearer}"),
			[]string{
				"injected *.b.com: port 443 |  → S as bearer Authorization",
				"changed routing: a running proxy cannot change it | selective → catch-all",
			}},
		{"set-up", "mode: public\n", "mode: public\nphases: {setup: {mode: no-network}}\n",
			[]string{
				"setup unreachable hosts that no entry names: every port | default-allow → default-deny",
				"setup unreachable public IPv4 addresses that no entry names: every port | default-allow → default-deny",
				"setup unreachable public IPv6 addresses that no entry names: every port | default-allow → default-deny",
				"setup changed routing: a running proxy cannot change it | selective → catch-all",
			}},
		{"limits, model", "mode: public\n", "mode: public\nlimits: {requests: 5}\n", []string{`changed limits:  | none → {"requests":5}`}},
		{"a placeholder", "mode: public\nsecrets: [{name: S, from: {env: S}}]\n", "mode: public\nsecrets: [{name: S, from: {env: S}, placeholder: abcdefgh}]\n",
			[]string{"changed secret S:  | placeholder of the run's own → placeholder abcdefgh"}},
		{"a pin", "mode: allowlist\nallow: [{host: a.com}]\n", "mode: allowlist\nallow: [{host: a.com, pin: {digests: ['sha256:0000000000000000000000000000000000000000000000000000000000000000']}}]\n",
			[]string{"changed a.com: port 443 | not pinned → every response among 1 artefacts [e191bc1a]"}},
	} {
		got := diffLines(t, c.before, c.after)
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: got\n  %s\nwant\n  %s", c.name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
	if _, err := Diff(mustParse(t, "mode: public\n"), mustParse(t, "mode: denylist\nblock: [{host: m.com}]\nmodel: {api: openai, url: 'https://m.com', allow: [m]}\n")); err == nil {
		t.Error("a policy that contradicts itself has a difference")
	}
}

// The changes of a diff and of its reverse mirror each other, and an entry that
// changes a decision shows up in it.
func TestDiffMirrors(t *testing.T) {
	docs := []string{
		"mode: public\n",
		"mode: no-network\n",
		"mode: allowlist\nallow: [{host: a.com}, {host: '*.b.com', methods: [GET]}, {cidr: 10.0.0.0/8}]\n",
		"mode: allowlist\nallow: [{host: '*.com'}, {url: 'https://a.com/x', methods: [POST]}]\nblock: [{host: x.com}, {cidr: 8.0.0.0/8}]\n",
		"mode: denylist\nblock: [{host: a.com}, {host: 'b.com', ports: [80], methods: [GET]}, {url: 'https://c.com/X;y'}]\nallow: [{host: ok.a.com}]\n",
	}
	for i := range docs {
		for j := range docs {
			count := map[ChangeKind]int{}
			for _, dir := range []struct{ a, b, sign int }{{i, j, 1}, {j, i, -1}} {
				changes, err := Diff(mustParse(t, docs[dir.a]), mustParse(t, docs[dir.b]))
				if err != nil {
					t.Fatal(err)
				}
				if (len(changes) == 0) != (i == j) {
					t.Errorf("%d to %d: %d changes", dir.a, dir.b, len(changes))
				}
				for _, c := range changes {
					kind := c.Kind
					if dir.sign < 0 {
						kind = map[ChangeKind]ChangeKind{Reachable: Unreachable, Unreachable: Reachable}[kind]
					}
					if kind == Reachable || kind == Unreachable {
						count[kind] += dir.sign
					}
				}
			}
			for kind, n := range count {
				if n != 0 {
					t.Errorf("%d and %d: %s is off by %d", i, j, kind, n)
				}
			}
		}
	}
}
