package battery

import (
	"slices"
	"testing"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
)

// TestUnmetByPolicy: what a policy leaves without a meaning, and nothing more.
func TestUnmetByPolicy(t *testing.T) {
	allow := func(hosts ...string) string {
		doc := "version: 1\nmode: allowlist\nallow:\n"
		for _, h := range hosts {
			doc += "  - " + h + "\n"
		}
		return doc
	}
	inject := func(host string) string {
		return "secrets: [{name: S, from: {env: S}, inject: [{host: " + host + ", as: bearer}]}]\n"
	}
	tests := []struct {
		name string
		doc  string
		req  catalog.Requirement
		met  bool
	}{
		{"a list of names keeps the internet out", allow("host: a.example"), catalog.NeedsNoInternet, true},
		{"so does a whole top-level domain", allow(`host: "*.example"`), catalog.NeedsNoInternet, true},
		{"a range that covers the attacker's addresses does not", allow("host: a.example", "cidr: 96.0.0.0/4"), catalog.NeedsNoInternet, false},
		{"nor does public", "version: 1\nmode: public\n", catalog.NeedsNoInternet, false},
		{"nor does a denylist", "version: 1\nmode: denylist\nblock: [{host: b.example}]\n", catalog.NeedsNoInternet, false},
		{"no-network does", "version: 1\nmode: no-network\n", catalog.NeedsNoInternet, true},
		{"one host with a secret, one without", allow("host: a.example", "host: b.example") + inject("a.example"), catalog.NeedsSecondHost, true},
		{"only the host of the secret", allow("host: a.example") + inject("a.example"), catalog.NeedsSecondHost, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := policy.Parse("policy.yaml", []byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			canonical, err := p.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			r, err := assign(canonical)
			if err != nil {
				t.Fatal(err)
			}
			if fact, missing := r.parts.Unmet()[tt.req]; missing == tt.met {
				t.Errorf("%s unmet: %v (%s)", tt.req, missing, fact)
			}
		})
	}
}

// TestFailuresRefuseNothing: every reason that says that something broke is told
// from one that says no.
func TestFailuresRefuseNothing(t *testing.T) {
	for _, reason := range []string{"upstream-malformed", "limit", "resolve-failed", "dial-failed", "internal", "timeout"} {
		if !slices.Contains(failures, reason) {
			t.Errorf("%s counts as a refusal", reason)
		}
	}
	for _, reason := range []string{"placeholder-unbound", "host-mismatch", "pin-mismatch", "lease-force", "client-unknown"} {
		if slices.Contains(failures, reason) {
			t.Errorf("%s counts as a failure", reason)
		}
	}
}
