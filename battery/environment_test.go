package battery

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/probes/catalog"
)

func TestEnvironment(t *testing.T) {
	box := boundary.Box{Gateway4: netip.MustParseAddr("192.0.2.1")}
	got := environment([]string{"HTTPS_PROXY=http://evil", "A=1", "A=2", "broken", "=x"}, box, tenantSecrets{{Name: "TOKEN", Value: "secret", Placeholder: "mark"}})
	for _, want := range []string{"A=2", "HTTPS_PROXY=http://192.0.2.1:3128", "TOKEN=mark", "SSL_CERT_FILE=/etc/wallproof/ca.pem"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, "secret") || strings.Contains(all, "evil") || strings.Contains(all, "broken") {
		t.Errorf("%q holds what it must not", got)
	}
	if kept := withoutRuntime([]string{"GODEBUG=x", "GOGC=1", "LD_PRELOAD=/x", "HOME=/"}); len(kept) != 1 || kept[0] != "HOME=/" {
		t.Errorf("kept %q", kept)
	}
}

// Every requirement that the catalogue uses is told by somebody: the policy, a
// fact measured inside, or the stack. One that nobody tells would count as met.
func TestEveryRequirementHasASource(t *testing.T) {
	policy := new(roles).unmet() // of a policy that has nothing
	stack := []catalog.Requirement{catalog.NeedsIPv6, catalog.NeedsProxy, catalog.NeedsTenant, catalog.NeedsSnapshot, catalog.NeedsAgent,
		catalog.NeedsResolver, catalog.NeedsImageConfig, catalog.NeedsSocks, catalog.NeedsControlAPI, catalog.NeedsRoot}
	for _, tech := range catalog.All() {
		for _, v := range tech.Variants {
			for _, req := range tech.RequiresOf(v) {
				_, told := policy[req]
				told = told || req == catalog.NeedsNoInternet || req == catalog.NeedsNoPrivate || req == catalog.NeedsNoMetadata // told by a policy that has too much
				if !told && req.Fact() == "" && !slices.Contains(stack, req) {
					t.Errorf("%s/%s: nobody tells whether %q is met", tech.ID, v, req)
				}
				if told && !req.OfPolicy() {
					t.Errorf("%q is told by the policy, but the judge does not know that", req)
				}
			}
		}
	}
}
