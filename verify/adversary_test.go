package verify_test

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/verify"
)

// The tests here are of an attester who has the key and derives everything anew:
// what is left is what the evidence itself cannot be.

// attackOf changes the attack's observations as a whole.
func attackOf(fn func([]manifest.Observation) []manifest.Observation) packettest.Option {
	return packettest.Observations(func(phase string, all []manifest.Observation) []manifest.Observation {
		if phase != nonce.PhaseAttack {
			return all
		}
		return fn(all)
	})
}

// each changes every observation of the attack in place.
func each(fn func(*manifest.Observation)) packettest.Option {
	return attackOf(func(all []manifest.Observation) []manifest.Observation {
		for i := range all {
			fn(&all[i])
		}
		return all
	})
}

// seen adds an observation to the attack.
func seen(o manifest.Observation) packettest.Option {
	return attackOf(func(all []manifest.Observation) []manifest.Observation {
		o.Time = all[len(all)-1].Time
		return append(all, o)
	})
}

func beatNonce(sandbox, position string) string {
	return judge.HeartbeatNonce(packettest.NonceKey, packettest.RunID, sandbox, position, nonce.PhaseAttack)
}

// with6 is a catalogue in which two techniques need IPv6 and nothing else.
func with6() packettest.Option {
	var list []catalog.Technique
	for _, t := range catalog.All() {
		if i := slices.IndexFunc(t.Variants, func(v string) bool { return strings.HasSuffix(v, "-v6") }); i >= 0 && len(list) < 4 {
			t.Variants = t.Variants[i : i+1]
			list = append(list, t)
		}
	}
	return packettest.Catalogue(append(list, small()...)[:4])
}

func unmet(list ...int) packettest.Option {
	return packettest.Planned(func(entries []manifest.Technique) {
		for _, n := range list {
			entries[n].NotApplicable, entries[n].Fact = string(catalog.NeedsIPv6), "no IPv6 here"
		}
	})
}

func isolation(name, fact string) packettest.Option {
	return packettest.Run(func(r *manifest.Run) { r.Driver.Isolation[name] = fact })
}

func series(index, of int64) packettest.Option {
	return packettest.Run(func(r *manifest.Run) { r.Series = &manifest.Series{ID: "0123abcd", Index: index, Of: of} })
}

func files(fn func(packet.Memory)) packettest.Option { return packettest.Files(fn) }

func policyOf(s string) packettest.Option { return packettest.WithPolicy([]byte(s)) }

func proof(fn func(*packet.Redaction)) packettest.Option { return packettest.Redaction(fn) }

func reference(s string) packettest.Option {
	return packettest.Run(func(r *manifest.Run) { r.Image.Reference = s })
}

// filterLog rewrites the packet filter's log and the redaction proof over it.
func filterLog(fn func(string) string) packettest.Option {
	return files(func(m packet.Memory) {
		data := fn(string(m[packet.FilterLogFile]))
		m[packet.FilterLogFile] = []byte(data)
		if data == "" {
			delete(m, packet.FilterLogFile)
		}
		var r packet.Redaction
		if err := canon.Unmarshal(m[packet.RedactionFile], &r); err != nil {
			panic(err)
		}
		r.Scanned = slices.DeleteFunc(r.Scanned, func(f predicate.File) bool { return data == "" && f.Path == packet.FilterLogFile })
		for i, f := range r.Scanned {
			if f.Path == packet.FilterLogFile {
				sum := sha256.Sum256([]byte(data))
				r.Scanned[i].Size, r.Scanned[i].SHA256 = int64(len(data)), hex.EncodeToString(sum[:])
			}
		}
		out, err := canon.Marshal(r)
		if err != nil {
			panic(err)
		}
		m[packet.RedactionFile] = out
	})
}

// forged makes a packet as a run leaves it, signs what follows from it whatever
// Inspect says, and verifies that.
func forged(t *testing.T, options ...packettest.Option) verify.Report {
	t.Helper()
	valid := smallPacket(t)
	p := smallPacket(t, append(slices.Clone(options), packettest.Unsigned())...)
	p.Key, p.Statement = valid.Key, valid.Statement
	p.Files[packet.VerificationFile] = valid.Files[packet.VerificationFile]
	in := forgeStatement(t, p, p.Files)
	if in == nil {
		_, checks := verify.Inspect(p.Files, p.Catalogue)
		return verify.Report{Verdict: verify.Invalid, Checks: checks}
	}
	return verify.Verify(*in)
}

const canaryHash = "abababababababababababababababababababababababababababababababab"

func TestForgedMeaning(t *testing.T) {
	outside := manifest.Observation{Side: manifest.SideWitness, Service: "collector", Proto: "http", Obtained: []string{canaryHash}}
	named := func(o manifest.Observation, n string) manifest.Observation { o.Nonce = n; return o }
	at := func(o manifest.Observation, service string) manifest.Observation { o.Service = service; return o }
	for _, c := range []struct {
		name    string
		options []packettest.Option
		verdict verify.Verdict
		code    verify.Code
	}{
		{"as it is", nil, verify.Valid, verify.CodeBatteryOK},

		{"a crash called not applicable, others ran", []packettest.Option{with6(), unmet(1)}, verify.Invalid, verify.CodeNotApplicable},
		{"unmet for two facts", []packettest.Option{packettest.NotApplicable(), with6(), packettest.Planned(func(e []manifest.Technique) { e[1].Fact = "it was Monday" })}, verify.Invalid, verify.CodeNotApplicable},
		{"unmet, and measured inside", []packettest.Option{with6(), unmet(0, 1, 2, 3)}, verify.Invalid, verify.CodeNotApplicable},
		{"unmet, as measured inside", []packettest.Option{packettest.NotApplicable(), with6()}, verify.VerdictHeld, verify.CodeVectorOpen},
		{"no facts of the isolation", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Driver.Isolation = map[string]string{} })}, verify.Invalid, verify.CodeRunFact},
		{"a fact of the isolation emptied", []packettest.Option{isolation("capEff", "")}, verify.Invalid, verify.CodeRunFact},
		{"no kernel inside", []packettest.Option{isolation("kernelVersion", "")}, verify.Invalid, verify.CodeRunFact},
		{"the host's kernel called its own", []packettest.Option{isolation("kernelVersion", "Linux version "+packettest.Kernel+" (root@host)")}, verify.Invalid, verify.CodeManifestRun},
		{"its own kernel called the host's", []packettest.Option{isolation("kernel", "shared")}, verify.Invalid, verify.CodeManifestRun},
		{"no proxy version", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Proxy.Version = "" })}, verify.Invalid, verify.CodeRunFact},
		{"no proxy configuration", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Proxy.ConfigDigest = "" })}, verify.Invalid, verify.CodeRunFact},
		{"no probe", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.ProbeDigest = "" })}, verify.Invalid, verify.CodeRunFact},
		{"no kernel of the host", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Host.Kernel = "" })}, verify.Invalid, verify.CodeRunFact},
		{"the fourth run of three", []packettest.Option{series(4, 3)}, verify.Invalid, verify.CodeManifestRun},
		{"the zeroth run of three", []packettest.Option{series(0, 3)}, verify.Invalid, verify.CodeManifestRun},
		{"the last run of three", []packettest.Option{series(3, 3)}, verify.Valid, verify.CodeBatteryOK},
		{"nothing substituted", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Substitutions = []string{} })}, verify.Invalid, verify.CodeRunFact},
		{"the canaries not mentioned", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Substitutions = r.Substitutions[:3] })}, verify.Invalid, verify.CodeRunFact},
		{"a foreign platform", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Image.Platform = "linux/arm64" })}, verify.Invalid, verify.CodeManifestRun},
		{"a technique left out in silence", []packettest.Option{packettest.Skip(required("NET")), packettest.Run(func(r *manifest.Run) { r.Selection = nil })}, verify.Invalid, verify.CodeTechniqueMissing},
		{"a technique that was not selected", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Selection = &manifest.Selection{Skip: []string{required("NET")}} })}, verify.Invalid, verify.CodeTechniqueMissing},
		{"a denial that the proxy did not log", []packettest.Option{each(func(o *manifest.Observation) {
			if o.Side == manifest.SideFilter {
				o.Side, o.Host, o.Rule = manifest.SideProxy, "evil.example.org", "block-entry"
			}
		})}, verify.Invalid, verify.CodeProxyLog},
		{"a fact without a requirement", []packettest.Option{packettest.Planned(func(e []manifest.Technique) { e[1].Fact = "it was Monday" })}, verify.Invalid, verify.CodeNotApplicable},

		{"another side", []packettest.Option{seen(manifest.Observation{Side: "Witness", Service: "collector"})}, verify.Invalid, verify.CodeObservationsMalformed},
		{"another sign", []packettest.Option{each(func(o *manifest.Observation) {
			if o.Sign == manifest.SignRefused {
				o.Sign = "connected"
			}
		})}, verify.Invalid, verify.CodeObservationsMalformed},
		{"no sign", []packettest.Option{each(func(o *manifest.Observation) { o.Sign = "" })}, verify.Invalid, verify.CodeObservationsMalformed},
		{"a witness with a sign", []packettest.Option{each(func(o *manifest.Observation) {
			if o.Side == manifest.SideWitness {
				o.Sign = manifest.SignRefused
			}
		})}, verify.Invalid, verify.CodeObservationsMalformed},
		{"another verdict", []packettest.Option{each(func(o *manifest.Observation) {
			if o.Verdict != "" {
				o.Verdict = "Deny"
			}
		})}, verify.Invalid, verify.CodeObservationsMalformed},

		{"a canary in nobody's name", []packettest.Option{seen(outside)}, verify.VerdictHeld, verify.CodeEscapeUnclaimed},
		{"a canary in nobody's name is a critical escape", []packettest.Option{seen(outside)}, verify.VerdictHeld, verify.CodeCriticalEscape},
		{"a canary in a heartbeat's name", []packettest.Option{seen(named(outside, beatNonce("work", judge.After)))}, verify.VerdictHeld, verify.CodeEscapeUnclaimed},
		{"a canary where the policy injects it", []packettest.Option{seen(at(outside, "allowed"))}, verify.Valid, verify.CodeBatteryOK},

		{"attempts entered in another sandbox", []packettest.Option{packettest.Planned(func(list []manifest.Technique) {
			for i := range list {
				if list[i].Attack.Sandbox == string(catalog.StageAgent) {
					list[i].Attack.Sandbox = string(catalog.StageWork)
				}
			}
		})}, verify.Invalid, verify.CodeSandbox},
		{"seen in another sandbox", []packettest.Option{each(func(o *manifest.Observation) {
			if o.Side == manifest.SideFilter {
				o.Sandbox = "tenant"
			}
		})}, verify.Invalid, verify.CodeSandbox},

		{"all heartbeats afterwards", []packettest.Option{each(func(o *manifest.Observation) {
			for _, position := range []string{judge.Before, judge.Between, judge.After} {
				if o.Nonce == beatNonce("work", position) {
					o.Time = manifest.FormatTime(packettest.Started.Add(time.Minute))
				}
			}
		})}, verify.Invalid, verify.CodeHeartbeatOrder},
		{"the last heartbeat before the attempts", []packettest.Option{each(func(o *manifest.Observation) {
			if o.Nonce != beatNonce("work", judge.Before) && o.Nonce != beatNonce("work", judge.After) && o.Nonce != beatNonce("work", judge.Between) {
				o.Time = manifest.FormatTime(packettest.Started.Add(time.Minute))
			}
		})}, verify.Invalid, verify.CodeHeartbeatOrder},

		{"the filter changed", []packettest.Option{filterLog(func(s string) string { return strings.Replace(s, "sha256:1", "sha256:4", 1) })}, verify.Invalid, verify.CodeFilterLog},
		{"no filter log", []packettest.Option{filterLog(func(string) string { return "" })}, verify.Invalid, verify.CodeFilterLog},
		{"a filter log of one phase", []packettest.Option{filterLog(func(s string) string { return s[:strings.Index(s, "\n")+1] })}, verify.Invalid, verify.CodeFilterLog},
		{"a filter log that is none", []packettest.Option{filterLog(func(string) string { return "{}\n" })}, verify.Invalid, verify.CodeFilterLog},

		{"no policy of ours", []packettest.Option{policyOf(`{"mode":"allowlist"}`)}, verify.Invalid, verify.CodePolicyForm},
		{"a policy of the future", []packettest.Option{policyOf(`{"evaluator":999,"mode":"allowlist","version":1}`)}, verify.VerdictHeld, verify.CodePolicyEvaluator},
		{"nothing to enforce, enforced", []packettest.Option{policyOf(packettest.PublicPolicy)}, verify.Invalid, verify.CodeEnforcementOther},
		{"something to enforce, nothing said", []packettest.Option{packettest.Enforcement(manifest.EnforcementNothing, "x")}, verify.Invalid, verify.CodeEnforcementOther},

		{"a reference to another image", []packettest.Option{reference(packettest.Reference + "@" + packettest.OtherDigest)}, verify.Invalid, verify.CodeManifestRun},
		{"a reference with a broken digest", []packettest.Option{reference(packettest.Reference + "@sha256:12")}, verify.Invalid, verify.CodeManifestRun},
		{"a reference to the image", []packettest.Option{reference(packettest.Reference + "@" + packettest.ImageDigest)}, verify.Valid, verify.CodeManifestOK},
		{"a reference to the index", []packettest.Option{reference(packettest.Reference + "@" + packettest.IndexDigest)}, verify.Valid, verify.CodeManifestOK},

		{"nothing searched for", []packettest.Option{proof(func(r *packet.Redaction) { r.Secrets = 0 })}, verify.VerdictHeld, verify.CodeRedactionUnproven},
		{"no encoding of use", []packettest.Option{proof(func(r *packet.Redaction) { r.Encodings = []string{"none"} })}, verify.VerdictHeld, verify.CodeRedactionUnproven},
		{"one planted", []packettest.Option{proof(func(r *packet.Redaction) { r.Control = packet.RedactionControl{Planted: 1, Found: 1} })}, verify.VerdictHeld, verify.CodeRedactionUnproven},

		{"a run of months", []packettest.Option{packettest.Run(func(r *manifest.Run) { r.Started = manifest.FormatTime(packettest.Started.Add(-25 * time.Hour)) }), each(func(o *manifest.Observation) {
			o.Time = manifest.FormatTime(packettest.Started)
		})}, verify.Invalid, verify.CodeRunLength},
	} {
		t.Run(c.name, func(t *testing.T) { wantCode(t, forged(t, c.options...), c.verdict, c.code) })
	}
}

// What the statement says of its key is held against the key without the packet too.
func TestSigningNamesAnotherKey(t *testing.T) {
	for _, name := range []string{packettest.OtherDigest, "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1#" + packettest.OtherDigest} {
		in := smallPacket(t, packettest.Signing("ecdsa-sha2-256-nistp256", name)).Input()
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeClaimsDiffer)
		bundleAlone(&in)
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeClaimsDiffer)
	}
}

// What the operator only asserts is shown as such, and is no external result.
func TestRedTeamOnlyAsserted(t *testing.T) {
	in := smallPacket(t).Input()
	wantCode(t, verify.Verify(in), verify.Valid, verify.CodeRedTeamAsserted)
	in.Require = []verify.Requirement{verify.RequireRedTeam}
	wantCode(t, verify.Verify(in), verify.VerdictHeld, verify.CodeRedTeamOnlyAsserted)
}

// An escape that is not critical takes out what it contradicts, and nothing else:
// the re-run confirms the rest, and says so.
func TestRerunInPart(t *testing.T) {
	i := slices.IndexFunc(small(), func(c catalog.Technique) bool { return c.Severity != catalog.Critical })
	escape := packettest.Escape(small()[i].ID)
	p := smallPacket(t, escape)
	r := verify.Verify(p.Input())
	wantCode(t, r, verify.VerdictHeld, verify.CodeRerunPartial)
	if !r.Partial() || len(r.Failed()) != 1 || r.Failed()[0].Code != verify.CodeEscape {
		t.Errorf("more than the escape holds:%s", explain(r))
	}
	if r := verify.Verify(smallPacket(t, escape, packettest.FailedRerun()).Input()); r.Partial() {
		t.Errorf("a re-run that failed holds nothing:%s", explain(r))
	}
	critical := slices.IndexFunc(small(), func(c catalog.Technique) bool { return c.Severity == catalog.Critical })
	wantCode(t, verify.Verify(smallPacket(t, packettest.Escape(small()[critical].ID)).Input()), verify.VerdictHeld, verify.CodeRerunFailed)
	// Nobody confirms that nothing escaped where something did, or the reverse.
	for _, c := range []struct {
		p     *packettest.Packet
		level verify.Verdict
	}{{p, verify.Valid}, {smallPacket(t), verify.VerdictHeld}} {
		in := c.p.Input()
		in.WithoutRerun = true
		report := verify.Verify(in)
		report.Verdict = c.level
		if c.level == verify.VerdictHeld {
			report.Checks = append(report.Checks, verify.Check{Status: verify.Held, Code: verify.CodeEscape})
		}
		signer, err := attest.NewKeySigner(c.p.Key)
		if err != nil {
			t.Fatal(err)
		}
		rerun, err := attest.SignVerification(t.Context(), report, signer, "0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		in = c.p.Input()
		in.Verification = rerun.Bundle
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeRerunLevel)
	}
}

// A result that says it is signed, by somebody whose key nobody gave.
func TestRedTeamSignatureNotChecked(t *testing.T) {
	key := newKey(t)
	payload, err := canon.Marshal(packet.RedTeamResult{Schema: packet.RedTeamSchema, Engagement: "Somebody", Target: packettest.ImageDigest,
		LastRun: manifest.FormatTime(packettest.Started), ResultDigest: packettest.OtherDigest})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(dsse.PAE(packet.RedTeamPayloadType, payload))
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	envelope := `{"payloadType":"` + packet.RedTeamPayloadType + `","payload":"` + base64.StdEncoding.EncodeToString(payload) +
		`","signatures":[{"sig":"` + base64.StdEncoding.EncodeToString(sig) + `"}]}`
	p := smallPacket(t, packettest.WithRedTeam([]byte(envelope)))
	in := p.Input()
	r := verify.Verify(in)
	wantCode(t, r, verify.Valid, verify.CodeRedTeamUnverified)
	if r.Has(verify.CodeRedTeamOK) || r.Has(verify.CodeRedTeamAsserted) {
		t.Errorf("passes although nobody checked the signature: %+v", r.Checks)
	}
	in.Require = []verify.Requirement{verify.RequireRedTeam}
	wantCode(t, verify.Verify(in), verify.VerdictHeld, verify.CodeRedTeamKey)
	in.RedTeamKeys = []crypto.PublicKey{newKey(t).Public()}
	wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeRedTeamSignature)
	in.RedTeamKeys = []crypto.PublicKey{key.Public()}
	wantCode(t, verify.Verify(in), verify.Valid, verify.CodeRedTeamOK)
}
