package judge

import (
	"slices"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/catalog"
)

const testTime = "2026-01-02T03:04:05.000Z"

const proofC, proofA = "cccccccccccccccc", "aaaaaaaaaaaaaaaa"

var (
	alive   = manifest.Heartbeat{Before: true, Between: true, After: true}
	reach   = catalog.Technique{ID: "NET-X", Vector: catalog.NET, Severity: catalog.Critical, Proof: catalog.ProofReach, Expect: catalog.ExpectRefusal, Required: true, Requires: []catalog.Requirement{catalog.NeedsIPv6}, Variants: []string{"v4"}}
	blind   = with(reach, func(t *catalog.Technique) { t.Expect = catalog.ExpectSilence })
	local   = with(reach, func(t *catalog.Technique) { t.Local, t.Proof = true, catalog.ProofCanary })
	echo    = with(reach, func(t *catalog.Technique) { t.Proof, t.Permits = catalog.ProofCanary, []string{"echo"} })
	agent   = with(reach, func(t *catalog.Technique) { t.ImageCode = true })
	edge    = with(reach, func(t *catalog.Technique) { t.Permits = []string{"registry"} })
	arrived = manifest.Observation{Side: manifest.SideWitness, Service: "collector"}
	atEcho  = manifest.Observation{Side: manifest.SideWitness, Service: "echo", Obtained: []string{"00"}}
	fDeny   = manifest.Observation{Side: manifest.SideFilter, Verdict: VerdictDeny, Sandbox: "work", Time: testTime}
	pDeny   = manifest.Observation{Side: manifest.SideProxy, Verdict: VerdictDeny, Sandbox: "work", Time: testTime}
	pAllow  = manifest.Observation{Side: manifest.SideProxy, Verdict: "allow", Sandbox: "work", Time: testTime}
	pRedact = manifest.Observation{Side: manifest.SideProxy, Verdict: VerdictRedact, Sandbox: "work", Time: testTime}
	got     = manifest.Observation{Side: manifest.SideProbe, Sign: manifest.SignReached, Obtained: []string{"00"}}
)

func with(t catalog.Technique, change func(*catalog.Technique)) catalog.Technique {
	change(&t)
	return t
}

func probe(sign string) manifest.Observation {
	return manifest.Observation{Side: manifest.SideProbe, Sign: sign, Time: testTime}
}

func readProof(p string) manifest.Observation {
	return manifest.Observation{Side: manifest.SideProbe, Sign: manifest.SignReached, Proof: p}
}

func obs(o ...manifest.Observation) []manifest.Observation { return o }

func TestJudge(t *testing.T) {
	crashed := manifest.Observation{Side: manifest.SideRunner, Sign: manifest.SignCrashed}
	tests := []struct {
		name            string
		technique       catalog.Technique
		control, attack []manifest.Observation
		edit            func(*manifest.Technique)
		outcome         Outcome
		reason          string
	}{
		{"B20: refused", reach, obs(readProof(proofC)), obs(probe("refused")), nil, Blocked, ReasonRefused},
		{"refused and recorded", reach, obs(arrived), obs(probe("refused"), fDeny), nil, Blocked, ReasonFilterDenied},
		{"a gateway that failed refused nothing", reach, obs(arrived), obs(manifest.Observation{Side: manifest.SideProbe, Sign: "refused", Status: 502, Time: testTime}), nil, Inconclusive, ReasonProbeError},
		{"a gateway that failed, recorded as failed", reach, obs(arrived), obs(manifest.Observation{Side: manifest.SideProbe, Sign: "refused", Status: 502, Time: testTime}, manifest.Observation{Side: manifest.SideProxy, Verdict: "failed"}), nil, Inconclusive, ReasonProbeError},
		{"refused by 505", reach, obs(arrived), obs(manifest.Observation{Side: manifest.SideProbe, Sign: "refused", Status: 505, Time: testTime}, pDeny), nil, Blocked, ReasonProxyDenied},
		{"refused by 403", reach, obs(arrived), obs(manifest.Observation{Side: manifest.SideProbe, Sign: "refused", Status: 403, Time: testTime}), nil, Blocked, ReasonRefused},
		{"closed and recorded", reach, obs(arrived), obs(probe("closed"), pDeny), nil, Blocked, ReasonProxyDenied},
		{"closed and not recorded", reach, obs(arrived), obs(probe("closed"), pAllow), nil, Inconclusive, ReasonNotAttributable},
		{"B21: block page with status 200 is no reachability", reach, obs(arrived), obs(probe("answered")), nil, Inconclusive, ReasonNotAttributable},
		{"block page, recorded", reach, obs(arrived), obs(probe("answered"), pDeny), nil, Blocked, ReasonProxyDenied},
		{"proof read", reach, obs(arrived), obs(readProof(proofA)), nil, Escaped, ReasonProof},
		{"proof of the other phase is no proof", reach, obs(arrived), obs(readProof(proofC)), nil, Inconclusive, ReasonContradiction},
		{"blind leak although refused", reach, obs(arrived), obs(probe("refused"), fDeny, arrived), nil, Escaped, ReasonArrival},
		{"canary obtained", local, obs(got), obs(got), nil, Escaped, ReasonCanary},
		{"canary at the witness", reach, obs(arrived), obs(probe("refused"), manifest.Observation{Side: manifest.SideWitness, Service: "collector", Obtained: []string{"00"}}), nil, Escaped, ReasonCanary},
		{"control silent", reach, obs(probe("refused")), obs(probe("refused"), fDeny), nil, Inconclusive, ReasonControlSilent},
		{"control empty", reach, nil, obs(probe("refused"), fDeny), nil, Inconclusive, ReasonControlSilent},
		{"control claims without proof", reach, obs(readProof("x")), obs(probe("refused")), nil, Inconclusive, ReasonControlSilent},
		{"no attempt", reach, obs(arrived), obs(fDeny), nil, Inconclusive, ReasonNoAttempt},
		{"B20: timeout is not a refusal", reach, obs(arrived), obs(probe("timeout")), nil, Inconclusive, ReasonTimeout},
		{"timeout with a counter is still not the expected sign", reach, obs(arrived), obs(probe("timeout"), fDeny), nil, Inconclusive, ReasonTimeout},
		{"blind, counted", blind, obs(arrived), obs(probe("sent"), fDeny), nil, Blocked, ReasonFilterDenied},
		{"blind, timeout, counted", blind, obs(arrived), obs(probe("timeout"), fDeny), nil, Blocked, ReasonFilterDenied},
		{"blind, uncounted", blind, obs(arrived), obs(probe("sent")), nil, Inconclusive, ReasonNotAttributable},
		{"blind, refused, uncounted", blind, obs(arrived), obs(probe("refused")), nil, Inconclusive, ReasonNotAttributable},
		{"B20: tool missing", reach, obs(arrived), obs(probe("missing"), fDeny), nil, Inconclusive, ReasonMissing},
		{"crashed", reach, obs(arrived), obs(crashed, fDeny), nil, Inconclusive, ReasonCrashed},
		{"a refusal beside a crash", reach, obs(arrived), obs(probe("refused"), crashed), nil, Inconclusive, ReasonCrashed},
		{"unknown sign", reach, obs(arrived), obs(probe("splendid"), fDeny), nil, Inconclusive, ReasonUnknownSign},
		{"no sign", reach, obs(arrived), obs(probe(""), fDeny), nil, Inconclusive, ReasonUnknownSign},
		{"the runner may not refuse", reach, obs(arrived), obs(manifest.Observation{Side: manifest.SideRunner, Sign: "refused", Time: testTime}, fDeny), nil, Inconclusive, ReasonCrashed},
		{"a denial of another sandbox", reach, obs(arrived), obs(probe("answered"), manifest.Observation{Side: manifest.SideFilter, Verdict: VerdictDeny, Sandbox: "tenant", Time: testTime}), nil, Inconclusive, ReasonNotAttributable},
		{"a denial of another time", reach, obs(arrived), obs(probe("answered"), manifest.Observation{Side: manifest.SideFilter, Verdict: VerdictDeny, Sandbox: "work", Time: "2026-01-02T03:14:05.000Z"}), nil, Inconclusive, ReasonNotAttributable},
		{"not applicable and yet attempted", reach, nil, obs(probe("refused")), func(e *manifest.Technique) { e.NotApplicable = "ipv6" }, Inconclusive, ReasonAttempted},
		{"heartbeat lost", reach, obs(arrived), obs(probe("refused"), fDeny), func(e *manifest.Technique) { e.Attack.Heartbeat.Between = false }, Inconclusive, ReasonHeartbeatLost},
		{"filter changed", reach, obs(arrived), obs(probe("refused"), fDeny), func(e *manifest.Technique) { e.Attack.FilterIntact = false }, Inconclusive, ReasonFilterChanged},
		{"escaped although the filter changed", reach, obs(arrived), obs(arrived), func(e *manifest.Technique) { e.Attack.FilterIntact = false }, Escaped, ReasonArrival},
		{"contained", local, obs(got), obs(probe("absent")), nil, Contained, ReasonNothingUsable},
		{"contained without network", local, obs(got), obs(probe("absent")), func(e *manifest.Technique) { e.Attack.Heartbeat = manifest.Heartbeat{} }, Contained, ReasonNothingUsable},
		{"local, refused, without network", local, obs(got), obs(probe("refused")), func(e *manifest.Technique) { e.Attack.Heartbeat = manifest.Heartbeat{} }, Inconclusive, ReasonHeartbeatLost},
		{"absent is only for local ones", reach, obs(arrived), obs(probe("absent")), nil, Inconclusive, ReasonNotAttributable},
		{"echo redacted", echo, obs(got), obs(probe("answered"), pRedact, atEcho), nil, Blocked, ReasonProxyRedacted},
		{"echo leaked", echo, obs(got), obs(got, atEcho), nil, Escaped, ReasonCanary},
		{"echo neither redacted nor leaked", echo, obs(got), obs(probe("answered"), atEcho), nil, Inconclusive, ReasonNotAttributable},
		{"agent's word alone", agent, obs(arrived), obs(probe("refused")), nil, Inconclusive, ReasonNotAttributable},
		{"agent, recorded outside", agent, obs(arrived), obs(probe("error"), pDeny), nil, Blocked, ReasonProxyDenied},
		{"agent crashed", agent, obs(arrived), obs(crashed, pDeny), nil, Inconclusive, ReasonCrashed},
		{"permitted edge", edge, obs(arrived), obs(probe("refused"), pDeny, manifest.Observation{Side: manifest.SideWitness, Service: "registry"}), nil, Blocked, ReasonProxyDenied},
		{"not applicable", reach, nil, nil, func(e *manifest.Technique) { e.NotApplicable = "ipv6" }, NotApplicable, ReasonNeeds},
		{"not applicable for no reason of its own", reach, nil, nil, func(e *manifest.Technique) { e.NotApplicable = "tenant" }, Inconclusive, ReasonBadRequirement},
		{"not applicable and yet arrived", reach, nil, obs(arrived), func(e *manifest.Technique) { e.NotApplicable = "ipv6" }, Escaped, ReasonArrival},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := manifest.Technique{
				Control: manifest.Phase{Sandbox: "work", Observations: tt.control, Heartbeat: alive, FilterIntact: true},
				Attack:  manifest.Phase{Sandbox: "work", Observations: tt.attack, Heartbeat: alive, FilterIntact: true},
			}
			if tt.edit != nil {
				tt.edit(&e)
			}
			v := Judge(tt.technique, e, Proofs{Control: proofC, Attack: proofA})
			if v.Outcome != tt.outcome || v.Reason != tt.reason {
				t.Errorf("got %s (%s), want %s (%s)", v.Outcome, v.Reason, tt.outcome, tt.reason)
			}
		})
	}
}

// Nothing may be blocked when every heartbeat is lost, whatever else is seen.
func TestNothingBlockedWithoutHeartbeat(t *testing.T) {
	signs := []string{"refused", "closed", "absent", "timeout", "missing", "reached", "answered", "sent", "error", "crashed"}
	records := []manifest.Observation{{}, fDeny, pDeny, pRedact, pAllow}
	for _, tech := range []catalog.Technique{reach, blind, local, echo, agent, edge} {
		for _, sign := range signs {
			for _, r := range records {
				e := manifest.Technique{
					Control: manifest.Phase{Observations: obs(got, arrived)},
					Attack:  manifest.Phase{Observations: obs(probe(sign), r), FilterIntact: true},
				}
				if v := Judge(tech, e, Proofs{}); v.Outcome == Blocked {
					t.Errorf("%s: sign %s with record %q is blocked without a heartbeat", tech.ID, sign, r.Verdict)
				}
			}
		}
	}
}

func TestPermittedFinding(t *testing.T) {
	e := manifest.Technique{Attack: manifest.Phase{Observations: obs(manifest.Observation{Side: manifest.SideWitness, Service: "registry"})}}
	v := Judge(edge, e, Proofs{})
	if len(v.Findings) != 1 || v.Findings[0].Kind != manifest.FindingPermitted {
		t.Errorf("findings = %v, want one %s", v.Findings, manifest.FindingPermitted)
	}
}

func TestExposureFinding(t *testing.T) {
	o := probe("absent")
	o.Detail = "exposure: core_pattern can be written"
	e := manifest.Technique{Attack: manifest.Phase{Observations: obs(o)}}
	v := Judge(local, e, Proofs{})
	if len(v.Findings) != 1 || v.Findings[0] != (manifest.Finding{Kind: manifest.FindingExposure, Detail: "core_pattern can be written"}) {
		t.Errorf("findings = %v, want one %s", v.Findings, manifest.FindingExposure)
	}
}

func TestVectors(t *testing.T) {
	optional := with(reach, func(t *catalog.Technique) { t.ID, t.Required, t.Severity = "NET-O", false, catalog.High })
	two := with(reach, func(t *catalog.Technique) { t.Variants = []string{"v4", "v6"} })
	entry := func(id, variant string, o Outcome) manifest.Technique {
		return manifest.Technique{Technique: id, Variant: variant, Outcome: string(o)}
	}
	na := func(id, variant string, r catalog.Requirement) manifest.Technique {
		return manifest.Technique{Technique: id, Variant: variant, Outcome: string(NotApplicable), NotApplicable: string(r)}
	}
	tests := []struct {
		name       string
		techniques []catalog.Technique
		entries    []manifest.Technique
		want       Outcome
	}{
		{"blocked", []catalog.Technique{reach}, []manifest.Technique{entry("NET-X", "v4", Blocked)}, Blocked},
		{"missing entry", []catalog.Technique{two}, []manifest.Technique{entry("NET-X", "v4", Blocked)}, Inconclusive},
		{"one family not applicable", []catalog.Technique{two}, []manifest.Technique{entry("NET-X", "v4", Blocked), entry("NET-X", "v6", NotApplicable)}, Blocked},
		{"required not applicable", []catalog.Technique{reach}, []manifest.Technique{entry("NET-X", "v4", NotApplicable)}, Inconclusive},
		{"required, and the policy has no such edge", []catalog.Technique{reach, optional}, []manifest.Technique{na("NET-X", "v4", catalog.NeedsBroker), entry("NET-O", "v4", Blocked)}, Blocked},
		{"required inconclusive", []catalog.Technique{reach, optional}, []manifest.Technique{entry("NET-X", "v4", Inconclusive), entry("NET-O", "v4", Blocked)}, Inconclusive},
		{"optional inconclusive", []catalog.Technique{reach, optional}, []manifest.Technique{entry("NET-X", "v4", Blocked), entry("NET-O", "v4", Inconclusive)}, Blocked},
		{"nothing conclusive", []catalog.Technique{optional}, []manifest.Technique{entry("NET-O", "v4", Inconclusive)}, NotTested},
		{"escaped beats all", []catalog.Technique{reach, optional}, []manifest.Technique{entry("NET-X", "v4", Inconclusive), entry("NET-O", "v4", Escaped)}, Escaped},
		{"contained", []catalog.Technique{reach, optional}, []manifest.Technique{entry("NET-X", "v4", Blocked), entry("NET-O", "v4", Contained)}, Contained},
		{"unknown outcome is no outcome", []catalog.Technique{reach}, []manifest.Technique{entry("NET-X", "v4", "fine")}, NotTested},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Vectors(tt.techniques, tt.entries)
			if len(got) != 1 || got[0].Outcome != tt.want {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
	escaped := []manifest.Technique{entry("NET-X", "v4", Escaped), entry("NET-O", "v4", Escaped)}
	if n := CriticalEscapes([]catalog.Technique{reach, optional}, escaped); n != 1 {
		t.Errorf("CriticalEscapes = %d, want 1: the other one is high", n)
	}
}

func BenchmarkJudge(b *testing.B) {
	e := manifest.Technique{
		Control: manifest.Phase{Observations: obs(readProof(proofC), arrived), Heartbeat: alive, FilterIntact: true},
		Attack:  manifest.Phase{Sandbox: "work", Observations: obs(probe("refused"), fDeny), Heartbeat: alive, FilterIntact: true},
	}
	for b.Loop() {
		if Judge(reach, e, Proofs{Control: proofC, Attack: proofA}).Outcome != Blocked {
			b.Fatal("not blocked")
		}
	}
}

// TestMissingIsSaidOnce: what was left out is named, in as few lines as it takes.
func TestMissingIsSaidOnce(t *testing.T) {
	list := []catalog.Technique{
		{ID: "NET-A", Vector: catalog.NET, Variants: []string{"a", "b"}}, {ID: "NET-B", Vector: catalog.NET, Variants: []string{"a", "b"}},
		{ID: "IMD-A", Vector: catalog.IMD, Variants: []string{"a", "b"}},
	}
	entries := []manifest.Technique{{Technique: "NET-A", Variant: "a", Outcome: string(Blocked)}}
	want := map[catalog.Vector][]string{catalog.NET: {"NET-A/b: missing", "NET-B: missing"}, catalog.IMD: {"IMD: missing"}}
	for _, s := range Vectors(list, entries) {
		if !slices.Equal(s.Reasons, want[s.Vector]) || s.Outcome != Inconclusive {
			t.Errorf("%s: %s %q, want inconclusive %q", s.Vector, s.Outcome, s.Reasons, want[s.Vector])
		}
	}
}
