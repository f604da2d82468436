package verify_test

import (
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/verify"
)

// D23: a run that was under one policy from the first to the last byte is attested,
// and no other.
func TestD23OnePolicyThroughout(t *testing.T) {
	const early, late = "2026-11-01T12:00:10.000Z", "2026-11-01T12:00:20.000Z"
	wired := func(change func(*manifest.Wired)) packettest.Option {
		return packettest.Run(func(r *manifest.Run) {
			r.PolicyDigest = predicate.Digest([]byte(packettest.Policy))
			r.Driver.Isolation[parts.FactRouting] = manifest.RoutingCatchAll
			ok := manifest.Wired{Sandbox: "work", PolicyDigest: r.PolicyDigest, Routing: manifest.RoutingCatchAll}
			other := manifest.Wired{Sandbox: "fresh", PolicyDigest: r.PolicyDigest, Routing: manifest.RoutingNone}
			agent := ok
			agent.Sandbox = "agent"
			change(&ok)
			r.Sandboxes = []manifest.Wired{ok, other, agent}
		})
	}
	for name, tt := range map[string]struct {
		option packettest.Option
		want   verify.Code
	}{
		"wired alike":       {wired(func(*manifest.Wired) {}), ""},
		"another policy":    {wired(func(w *manifest.Wired) { w.PolicyDigest = packettest.OtherDigest }), verify.CodeWiring},
		"no digest":         {wired(func(w *manifest.Wired) { w.PolicyDigest = "x" }), verify.CodeWiring},
		"another routing":   {wired(func(w *manifest.Wired) { w.Routing = manifest.RoutingSelective }), verify.CodeWiring},
		"one left out":      {wired(func(w *manifest.Wired) { w.Sandbox = "tenant" }), verify.CodeWiring},
		"nothing listed":    {packettest.Run(func(r *manifest.Run) { r.Sandboxes = []manifest.Wired{} }), verify.CodeWiring},
		"a sandbox twice":   {wired(func(w *manifest.Wired) { w.Sandbox = "fresh" }), verify.CodeWiring},
		"halted, resumed":   {packettest.Around(nil, []manifest.Halt{{Time: early, Halted: true}, {Time: late}}), ""},
		"resumed first":     {packettest.Around(nil, []manifest.Halt{{Time: early}}), verify.CodeWiring},
		"halted backwards":  {packettest.Around(nil, []manifest.Halt{{Time: late, Halted: true}, {Time: early}}), verify.CodeWiring},
		"edited":            {packettest.Around([]manifest.Edit{{Time: early, PolicyDigest: packettest.OtherDigest}}, nil), verify.CodePolicyEdited},
		"edited to rubbish": {packettest.Around([]manifest.Edit{{Time: early}}, nil), verify.CodePolicyEdited},
	} {
		t.Run(name, func(t *testing.T) {
			p := smallPacket(t, packettest.Unsigned(), tt.option)
			derived, checks := verify.Inspect(p.Files, p.Catalogue)
			var found verify.Code
			for _, c := range checks {
				if c.Status == verify.Fail && c.Name == verify.CheckEnforcement {
					found = c.Code
				} else if c.Status == verify.Fail {
					t.Errorf("%s: %s", c.Code, c.Message)
				}
			}
			if found != tt.want || (derived == nil) != (tt.want != "") {
				t.Errorf("%q, want %q", found, tt.want)
			}
		})
	}
}
