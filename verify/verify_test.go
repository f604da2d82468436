package verify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// explain lists the lines that are not as they should be.
func explain(r verify.Report) string {
	var b strings.Builder
	for _, c := range r.Failed() {
		b.WriteString("\n  " + string(c.Status) + " " + c.Name + " " + string(c.Code) + ": " + c.Message)
	}
	return b.String()
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func live(t *testing.T, fn func(*predicate.Live)) []byte {
	t.Helper()
	l := predicate.Live{
		Schema: predicate.LiveSchema, Generated: "2026-11-02T11:00:00Z", Image: packettest.ImageDigest, Policy: predicate.Digest([]byte(packettest.Policy)),
		Fabric: &predicate.LiveFabric{Driver: "gvisor", Version: "20260905.0", Kernel: packettest.Kernel, Isolation: packettest.Isolation()},
	}
	fn(&l)
	data, err := canon.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The whole catalogue, once.
func TestWholeCatalogue(t *testing.T) {
	r := verify.Verify(packettest.New(t).Input())
	if r.Verdict != verify.Valid || len(r.Evidence.Vectors) < 7 {
		t.Errorf("%s, %d vectors:%s", r.Verdict, len(r.Evidence.Vectors), explain(r))
	}
}

func TestVerdicts(t *testing.T) {
	critical, high, local := required("NET"), firstOf("LAT", false), firstOf("ENV", true)
	for _, c := range []struct {
		name    string
		options []packettest.Option
		input   func(*verify.Input)
		verdict verify.Verdict
		codes   []verify.Code
	}{
		{name: "valid", verdict: verify.Valid, codes: []verify.Code{verify.CodePacketOK, verify.CodeManifestOK, verify.CodeObservationsOK, verify.CodeCatalogueOK,
			verify.CodeOutcomesOK, verify.CodeClaimsOK, verify.CodeEnforced, verify.CodeRedactionOK, verify.CodeBatteryOK, verify.CodeCurrent, verify.CodeRerunSelf,
			verify.CodeRedTeamAsserted, verify.CodeThreatModelOK, verify.CodeTimeAsserted, verify.CodeTransparencyNone, verify.CodeSignerKey}},
		{name: "critical escape", options: []packettest.Option{packettest.Escape(critical)}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeCriticalEscape, verify.CodeEscape, verify.CodeRerunFailed}},
		{name: "escape below critical", options: []packettest.Option{packettest.Escape(high)}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeEscape}},
		{name: "local escape", options: []packettest.Option{packettest.Escape(local)}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeEscape}},
		{name: "control silent", options: []packettest.Option{packettest.ControlSilent(required("NET"))}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeVectorOpen}},
		{name: "technique left out", options: []packettest.Option{packettest.Skip(critical)}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeVectorOpen}},
		{name: "nothing enforced", options: []packettest.Option{packettest.Enforcement(manifest.EnforcementNothing, "public mode"), packettest.WithPolicy([]byte(packettest.PublicPolicy))}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeEnforcedNothing}},
		{name: "enforcement failed", options: []packettest.Option{packettest.Enforcement(manifest.EnforcementFailed, "vault")}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeEnforcedFailed}},
		{name: "enforcement unknown", options: []packettest.Option{packettest.Enforcement("perhaps", "")}, verdict: verify.Invalid, codes: []verify.Code{verify.CodeEnforcementState}},
		{name: "permitted arrivals", options: []packettest.Option{packettest.Permitted()}, verdict: verify.Valid},
		{name: "no IPv6", options: []packettest.Option{packettest.NotApplicable()}, verdict: verify.Valid, codes: []verify.Code{verify.CodeOutcomesOK}},
		{name: "secrets in the packet", options: []packettest.Option{packettest.Redaction(func(r *packet.Redaction) { r.Hits = 1 })}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedactionHits}},
		{name: "secrets on the machine", options: []packettest.Option{packettest.Redaction(func(r *packet.Redaction) {
			r.Residue = []packet.Residue{{Place: packet.ResidueTemporary, Files: 3}, {Place: packet.ResidueSwap, Files: 1, Hits: 2}}
		})}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedactionHits}},
		{name: "redaction unproven", options: []packettest.Option{packettest.Redaction(func(r *packet.Redaction) { r.Control.Found-- })}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedactionUnproven}},
		{name: "redaction without control", options: []packettest.Option{packettest.Redaction(func(r *packet.Redaction) { r.Control = packet.RedactionControl{} })}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedactionUnproven}},
		{name: "admitted", options: []packettest.Option{admitted}, input: require(verify.RequireAdmission), verdict: verify.Valid, codes: []verify.Code{verify.CodeAdmissionOK}},
		{name: "admission required", input: require(verify.RequireAdmission), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeAdmissionMissing}},

		{name: "expired", input: at(60*24*time.Hour + time.Minute), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeExpired}},
		{name: "a moment before", input: at(60*24*time.Hour - time.Second), verdict: verify.Valid, codes: []verify.Code{verify.CodeCurrent}},
		{name: "verifier's cap", options: []packettest.Option{packettest.Validity(365 * 24 * time.Hour)}, input: at(91 * 24 * time.Hour), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeExpiredCap}},
		{name: "shorter cap", input: func(in *verify.Input) { in.MaxAge = time.Hour }, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeExpiredCap}},
		{name: "before it existed", input: at(-time.Hour), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeNotYet}},

		{name: "nothing drifted", input: liveInput(t, func(*predicate.Live) {}), verdict: verify.Valid, codes: []verify.Code{verify.CodeImageSame, verify.CodePolicySame, verify.CodeFabricSame}},
		{name: "image drift", input: liveInput(t, func(l *predicate.Live) { l.Image = packettest.OtherDigest }), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeImageDrift}},
		{name: "live names the index", input: liveInput(t, func(l *predicate.Live) { l.Image = packettest.IndexDigest }), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeImageDrift}},
		{name: "policy drift in live", input: liveInput(t, func(l *predicate.Live) { l.Policy = packettest.OtherDigest }), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodePolicyDrift}},
		{name: "policy drift", input: func(in *verify.Input) { in.PolicyDigest = packettest.OtherDigest }, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodePolicyDrift}},
		{name: "policy the same", input: func(in *verify.Input) { in.PolicyDigest = predicate.Digest([]byte(packettest.Policy)) }, verdict: verify.Valid, codes: []verify.Code{verify.CodePolicySame}},
		{name: "policy digest malformed", input: func(in *verify.Input) { in.PolicyDigest = "abc" }, verdict: verify.Invalid, codes: []verify.Code{verify.CodePolicyForm}},
		{name: "kernel drift", input: liveInput(t, func(l *predicate.Live) { l.Fabric.Kernel = "6.19.0" }), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeFabricDrift}},
		{name: "isolation drift", input: liveInput(t, func(l *predicate.Live) { l.Fabric.Isolation["kernel"] = "shared" }), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeFabricDrift}},
		{name: "live.json with nothing of the fabric", input: liveInput(t, func(l *predicate.Live) { l.Fabric = &predicate.LiveFabric{} }), verdict: verify.Valid, codes: []verify.Code{verify.CodeImageSame, verify.CodeFabricUnknown}},
		{name: "live.json without facts of the isolation", input: liveInput(t, func(l *predicate.Live) { l.Fabric.Isolation = nil }), verdict: verify.Valid, codes: []verify.Code{verify.CodeFabricSame}},
		{name: "live.json as old as may be", input: liveInput(t, generated("2026-10-26T12:00:00Z")), verdict: verify.Valid, codes: []verify.Code{verify.CodeImageSame, verify.CodePolicySame, verify.CodeFabricSame}},
		{name: "live.json too old", input: liveInput(t, generated("2026-10-26T11:59:59Z")), verdict: verify.Valid, codes: []verify.Code{verify.CodeImageOutdated, verify.CodePolicyOutdated, verify.CodeFabricOutdated}},
		{name: "live.json of a clock that is a little ahead", input: liveInput(t, generated("2026-11-02T12:05:00Z")), verdict: verify.Valid, codes: []verify.Code{verify.CodeImageSame}},
		{name: "live.json from the future", input: liveInput(t, generated("2026-11-02T12:05:01Z")), verdict: verify.Valid, codes: []verify.Code{verify.CodeImageOutdated, verify.CodePolicyOutdated, verify.CodeFabricOutdated}},
		{name: "drift in a live.json that is too old", input: liveInput(t, func(l *predicate.Live) { l.Generated, l.Image = "2025-01-01T00:00:00Z", packettest.OtherDigest }), verdict: verify.VerdictHeld,
			codes: []verify.Code{verify.CodeImageDrift, verify.CodePolicyOutdated}},
		{name: "drift in a live.json from the future", input: liveInput(t, func(l *predicate.Live) { l.Generated, l.Fabric.Kernel = "2027-01-01T00:00:00+01:00", "6.19.0" }), verdict: verify.VerdictHeld,
			codes: []verify.Code{verify.CodeFabricDrift, verify.CodeImageOutdated}},
		{name: "policy given beside a live.json that is too old", input: func(in *verify.Input) {
			liveInput(t, generated("2026-10-01T12:00:00Z"))(in)
			in.PolicyDigest = predicate.Digest([]byte(packettest.Policy))
		}, verdict: verify.Valid, codes: []verify.Code{verify.CodePolicySame, verify.CodePolicyOutdated}},
		{name: "live malformed", input: func(in *verify.Input) { in.Live = []byte(`{"schema":"wallproof.live/v1","Image":"x"}`) }, verdict: verify.Invalid, codes: []verify.Code{verify.CodeLiveMalformed}},
		{name: "latched", input: func(in *verify.Input) {
			in.Latched = []verify.Latch{{Code: verify.CodePolicyDrift, Since: "2026-11-02T00:00:00Z"}}
		}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeLatched}},
		{name: "history without a drift", input: func(in *verify.Input) { in.Latched = []verify.Latch{} }, verdict: verify.Valid, codes: []verify.Code{verify.CodeNotLatched}},

		{name: "re-run missing", options: []packettest.Option{packettest.WithoutRerun()}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRerunMissing}},
		{name: "re-run failed", options: []packettest.Option{packettest.FailedRerun()}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRerunFailed}},
		{name: "independent re-run", options: []packettest.Option{packettest.VerifierKey(newKey(t))}, input: require(verify.RequireIndependent), verdict: verify.Valid, codes: []verify.Code{verify.CodeRerunOK}},
		{name: "independent required", input: require(verify.RequireIndependent), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRerunIndependent}},
		{name: "re-run by a stranger", options: []packettest.Option{packettest.VerifierKey(newKey(t))}, input: func(in *verify.Input) { in.VerifierTrust = nil }, verdict: verify.Invalid, codes: []verify.Code{verify.CodeRerunInvalid}},

		{name: "no red team", options: []packettest.Option{packettest.WithoutRedTeam()}, verdict: verify.Valid, codes: []verify.Code{verify.CodeRedTeamNone}},
		{name: "red team required", options: []packettest.Option{packettest.WithoutRedTeam()}, input: require(verify.RequireRedTeam), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedTeamMissing}},
		{name: "red team elsewhere", options: []packettest.Option{packettest.RedTeamTarget(packettest.OtherDigest)}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedTeamTarget}},
		{name: "red team escaped", options: []packettest.Option{packettest.RedTeamEscapes(2)}, verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeRedTeamEscapes}},
		{name: "no threat model", options: []packettest.Option{packettest.WithThreatModel(nil)}, verdict: verify.Valid, codes: []verify.Code{verify.CodeThreatModelNone}},
		{name: "threat model required", options: []packettest.Option{packettest.WithThreatModel(nil)}, input: require(verify.RequireThreatModel), verdict: verify.VerdictHeld, codes: []verify.Code{verify.CodeThreatModelMissing}},

		{name: "timestamp required", input: require(verify.RequireTimestamp), verdict: verify.Invalid, codes: []verify.Code{verify.CodeTimeMissing, verify.CodeNotAuthenticated}},
		{name: "log required", input: require(verify.RequireLog), verdict: verify.Invalid, codes: []verify.Code{verify.CodeTransparencyMissing}},
		{name: "nobody trusted", input: func(in *verify.Input) { in.Trust = verify.Trust{} }, verdict: verify.Invalid, codes: []verify.Code{verify.CodeTrustMissing}},
		{name: "two trusted", input: func(in *verify.Input) { in.Trust.Identity = &verify.Identity{} }, verdict: verify.Invalid, codes: []verify.Code{verify.CodeTrustMissing}},
		{name: "another key", input: func(in *verify.Input) { in.Trust.Key = newKey(t).Public() }, verdict: verify.Invalid, codes: []verify.Code{verify.CodeSignatureInvalid}},
		{name: "bundle alone", input: bundleAlone, verdict: verify.Valid, codes: []verify.Code{verify.CodePacketNotGiven, verify.CodeBatteryNotChecked}},
		{name: "bundle alone, packet required", input: func(in *verify.Input) { bundleAlone(in); require(verify.RequirePacket)(in) }, verdict: verify.Invalid, codes: []verify.Code{verify.CodePacketNotGiven}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := smallPacket(t, c.options...).Input()
			if c.input != nil {
				c.input(&in)
			}
			r := verify.Verify(in)
			if r.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s:%s", r.Verdict, c.verdict, explain(r))
			}
			for _, code := range c.codes {
				if !r.Has(code) {
					t.Errorf("no line with %s:%s", code, explain(r))
				}
			}
			everyCheckOnce(t, r)
		})
	}
}

// everyCheckOnce demands that a report leaves no check out and keeps the order.
func everyCheckOnce(t *testing.T, r verify.Report) {
	t.Helper()
	var names []string
	for _, c := range r.Checks {
		if len(names) == 0 || names[len(names)-1] != c.Name {
			names = append(names, c.Name)
		}
		if _, ok := verify.ReasonFor(c.Code); !ok {
			t.Errorf("%s is not a documented code", c.Code)
		}
	}
	if got, want := strings.Join(names, " "), strings.Join(verify.Order(), " "); got != want {
		t.Errorf("checks\n%s\nwant\n%s", got, want)
	}
}

// admitted makes a run under an admission policy.
var admitted = packettest.Run(func(r *manifest.Run) {
	r.Admission = &manifest.Admission{State: manifest.AdmissionAdmitted, PolicyDigest: packettest.OtherDigest}
})

func require(list ...verify.Requirement) func(*verify.Input) {
	return func(in *verify.Input) { in.Require = append(in.Require, list...) }
}

// at asks for a moment, counted from the end of the run.
func at(d time.Duration) func(*verify.Input) {
	return func(in *verify.Input) { in.At = packettest.Started.Add(d) }
}

func liveInput(t *testing.T, fn func(*predicate.Live)) func(*verify.Input) {
	data := live(t, fn)
	return func(in *verify.Input) { in.Live = data }
}

// generated makes a live.json be of another time.
func generated(at string) func(*predicate.Live) {
	return func(l *predicate.Live) { l.Generated = at }
}

// bundleAlone takes the packet away and leaves its two bundles.
func bundleAlone(in *verify.Input) {
	files := in.Packet.(packet.Memory)
	in.Bundle, in.Verification, in.Packet = files[packet.AttestationFile], files[packet.VerificationFile], nil
}

// firstOf returns a technique of a vector that is local or not and below
// critical severity.
func firstOf(vector string, local bool) string {
	for _, t := range small() {
		if string(t.Vector) == vector && t.Local == local && t.Severity != catalog.Critical {
			return t.ID
		}
	}
	panic("no such technique in " + vector)
}

// required returns a required technique of a vector.
func required(vector string) string {
	for _, t := range small() {
		if string(t.Vector) == vector && t.Required {
			return t.ID
		}
	}
	panic("no required technique in " + vector)
}
