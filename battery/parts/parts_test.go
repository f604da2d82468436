package parts_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/isolation"
)

// Every requirement that the catalogue uses is told by somebody: the policy, a
// fact, or, of what every stack offers, the list below. One that nobody tells
// would count as met.
func TestEveryRequirementHasASource(t *testing.T) {
	policy, stack := parts.Parts{Internet: true, Private: true, Metadata: true}.Unmet(), parts.UnmetByStack(nil)
	always := []catalog.Requirement{catalog.NeedsProxy, catalog.NeedsTenant, catalog.NeedsAgent, catalog.NeedsResolver, catalog.NeedsImageConfig, catalog.NeedsSocks, catalog.NeedsAuthorities}
	for _, tech := range catalog.All() {
		for _, v := range tech.Variants {
			for _, req := range tech.RequiresOf(v) {
				_, byPolicy := policy[req]
				_, byStack := stack[req]
				if byPolicy != req.OfPolicy() {
					t.Errorf("%q: told by the policy %t, the judge thinks %t", req, byPolicy, req.OfPolicy())
				}
				if !byPolicy && !byStack && !slices.Contains(always, req) {
					t.Errorf("%s/%s: nobody tells whether %q is met", tech.ID, v, req)
				}
				if byStack && req.Fact() != "" && !slices.Contains(parts.Facts(), req.Fact()) {
					t.Errorf("%q is told by fact %s, which no run must record", req, req.Fact())
				}
			}
		}
	}
}

// What a run must record is what the probe measures, and what the battery adds.
func TestFactsAreThoseMeasured(t *testing.T) {
	want := slices.Collect(maps.Keys(isolation.Measure()))
	want = append(want, parts.FactKernelVersion, parts.FactDriverKernel, parts.FactIPv6, parts.FactSnapshots, parts.FactControlAPI, parts.FactRouting)
	slices.Sort(want)
	have := parts.Facts()
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("facts are %q, measured and added are %q", have, want)
	}
}

func compile(t *testing.T, text string) parts.Parts {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := p.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = policy.ParseCanonical(canonical); err != nil {
		t.Fatal(err)
	}
	e, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return parts.Of(e, p)
}

func TestUnmetByPolicy(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		unmet, met   []catalog.Requirement
	}{
		{"one host", "version: 1\nname: a\nmode: allowlist\nallow:\n  - host: github.com\n",
			[]catalog.Requirement{catalog.NeedsInjection, catalog.NeedsBroker, catalog.NeedsWildcard, catalog.NeedsBlockedHost, catalog.NeedsBlockedPath, catalog.NeedsInspection, catalog.NeedsModel},
			[]catalog.Requirement{catalog.NeedsAllowedHost, catalog.NeedsNoInternet, catalog.NeedsNoPrivate, catalog.NeedsNoMetadata, catalog.NeedsBlockedPort, catalog.NeedsBlockedScheme, catalog.NeedsWrite}},
		{"a path, a method and names below a domain", "version: 1\nname: a\nmode: allowlist\nallow:\n  - host: github.com\n    paths: [/acme/]\n    methods: [GET]\n  - host: \"*.example.org\"\n",
			[]catalog.Requirement{catalog.NeedsWrite, catalog.NeedsInjection},
			[]catalog.Requirement{catalog.NeedsBlockedPath, catalog.NeedsBlockedMethod, catalog.NeedsInspection, catalog.NeedsWildcard}},
		{"the internet but one host", "version: 1\nname: a\nmode: denylist\nblock:\n  - host: evil.example.org\n",
			[]catalog.Requirement{catalog.NeedsNoInternet},
			[]catalog.Requirement{catalog.NeedsBlockedHost, catalog.NeedsAllowedHost}},
	} {
		unmet := compile(t, c.policy).Unmet()
		for _, r := range c.unmet {
			if unmet[r] == "" {
				t.Errorf("%s: %q counts as met", c.name, r)
			}
		}
		for _, r := range c.met {
			if fact, missing := unmet[r]; missing {
				t.Errorf("%s: %q counts as unmet: %s", c.name, r, fact)
			}
		}
	}
}

func TestUnmetByStack(t *testing.T) {
	all := map[string]string{"uid": "0", parts.FactKernel: parts.KernelShared}
	for _, f := range parts.Facts() {
		if all[f] == "" {
			all[f] = "yes"
		}
	}
	if u := parts.UnmetByStack(all); len(u) != 0 {
		t.Errorf("a stack that has everything misses %v", u)
	}
	all["rawSocket"], all["uid"] = "EPERM", "1000"
	u := parts.UnmetByStack(all)
	if len(u) != 2 || u[catalog.NeedsRawSocket] != "rawSocket: EPERM" || u[catalog.NeedsRoot] == "" {
		t.Errorf("got %v", u)
	}
	tech := catalog.Technique{Requires: []catalog.Requirement{catalog.NeedsModel, catalog.NeedsRawSocket}, Variants: []string{"direct-v6"}}
	if r, fact := u.First(tech, "direct-v6"); r != catalog.NeedsRawSocket || fact != "rawSocket: EPERM" {
		t.Errorf("first unmet is %q (%q)", r, fact)
	}
}
