package verify

import (
	"bytes"
	"crypto"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
)

// redTeam judges the external result. One that was not provided is shown as
// such, and holds the claim only where it is required.
func (v *verification) redTeam() {
	r := v.boundary.RedTeam
	if r == nil {
		if v.auth.requires(RequireRedTeam) {
			v.hold(CheckRedTeam, CodeRedTeamMissing, "no external red-team result, and one is required", "")
			return
		}
		v.skip(CheckRedTeam, CodeRedTeamNone, "no external red-team result was provided", "")
		return
	}
	checked, ok := v.redTeamSigned(r)
	if !ok {
		return
	}
	last, err := parseAny(r.LastRun)
	attested, err2 := manifest.ParseTime(v.boundary.Attested)
	switch {
	case err != nil || err2 != nil || last.After(attested.Add(ClockSkew)):
		v.fail(CheckRedTeam, CodeRedTeamTime, fmt.Sprintf("lastRun %.60q is malformed or after the attestation", r.LastRun), packet.RedTeamFile)
	case r.Target != v.report.Subject:
		v.hold(CheckRedTeam, CodeRedTeamTarget, "the red team attacked "+r.Target+", attested is "+v.report.Subject, packet.RedTeamFile)
	case r.CriticalEscapes > 0:
		v.hold(CheckRedTeam, CodeRedTeamEscapes, fmt.Sprintf("%s in engagement %.100q", criticalEscapes(r.CriticalEscapes), r.Engagement), packet.RedTeamFile)
	case checked:
		v.pass(CheckRedTeam, CodeRedTeamOK, fmt.Sprintf("engagement %.100q, no critical escape, signed by the red team", r.Engagement), packet.RedTeamFile)
	case r.Attestor == predicate.RedTeamSigned && v.auth.requires(RequireRedTeam):
		v.hold(CheckRedTeam, CodeRedTeamKey, "a red-team result is required, and its own signature was not checked: give the red team's key", packet.RedTeamFile)
	case r.Attestor == predicate.RedTeamSigned:
		v.skip(CheckRedTeam, CodeRedTeamUnverified, fmt.Sprintf("engagement %.100q, no critical escape, only asserted: the red team's own signature was not checked, give its key", r.Engagement), packet.RedTeamFile)
	case v.auth.requires(RequireRedTeam):
		v.hold(CheckRedTeam, CodeRedTeamOnlyAsserted, fmt.Sprintf("engagement %.100q: an external result is required, and nobody but the operator vouches for this one", r.Engagement), packet.RedTeamFile)
	default:
		v.pass(CheckRedTeam, CodeRedTeamAsserted, fmt.Sprintf("engagement %.100q, no critical escape, as the operator asserts", r.Engagement), packet.RedTeamFile)
	}
}

// redTeamSigned checks the red team's own signature, where there is one. checked
// is true only when it is by a key that was given; ok is false when the result is
// refused.
func (v *verification) redTeamSigned(r *predicate.RedTeam) (checked, ok bool) {
	switch r.Attestor {
	case predicate.RedTeamOperator:
		return false, true
	case predicate.RedTeamSigned:
	default:
		v.fail(CheckRedTeam, CodeRedTeamMalformed, fmt.Sprintf("unknown attestor %.60q", r.Attestor), packet.RedTeamFile)
		return false, false
	}
	if v.evidence.RedTeam == nil || len(v.in.RedTeamKeys) == 0 {
		return false, true
	}
	if !SignedByOneOf(*v.evidence.RedTeam, v.in.RedTeamKeys) {
		v.fail(CheckRedTeam, CodeRedTeamSignature, "signed by none of the red team's keys", packet.RedTeamFile)
		return false, false
	}
	return true, true
}

// SignedByOneOf reports whether a red-team result was signed by one of the keys.
func SignedByOneOf(r packet.ParsedRedTeam, keys []crypto.PublicKey) bool {
	message := dsse.PAE(r.PayloadType, r.Payload)
	for _, key := range keys {
		verifier, err := signature.LoadDefaultVerifier(key)
		if err != nil {
			continue
		}
		if verifier.VerifySignature(bytes.NewReader(r.Signature), bytes.NewReader(message)) == nil {
			return true
		}
	}
	return false
}

// threatModel judges the document, which was compared with the statement
// already.
func (v *verification) threatModel() {
	t := v.boundary.ThreatModel
	switch {
	case t != nil:
		v.pass(CheckThreatModel, CodeThreatModelOK, t.File+", "+t.Digest, t.File)
	case v.auth.requires(RequireThreatModel):
		v.hold(CheckThreatModel, CodeThreatModelMissing, "no threat model, and one is required", "")
	default:
		v.skip(CheckThreatModel, CodeThreatModelNone, "no threat model was provided", "")
	}
}
