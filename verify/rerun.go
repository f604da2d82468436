package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
)

// rerun checks the verifier's signed re-run. One that is missing or says
// "failed" holds the claim; one that is forged or about something else makes the
// packet invalid.
func (v *verification) rerun() {
	if v.in.WithoutRerun {
		v.skip(CheckRerun, CodeRerunSkipped, "this verification is the re-run", "")
		return
	}
	data, err := v.verificationBundle()
	if errors.Is(err, fs.ErrNotExist) {
		v.hold(CheckRerun, CodeRerunMissing, "no signed verifier re-run: make one with wallproof verify --sign", packet.VerificationFile)
		return
	}
	if err != nil {
		v.fail(CheckRerun, CodeRerunInvalid, err.Error(), packet.VerificationFile)
		return
	}
	a := *v.auth
	a.require = nil
	if v.in.VerifierTrust != nil {
		a.trust = *v.in.VerifierTrust
	}
	r, signed, ok := v.readRerun(&a, data)
	if !ok {
		return
	}
	v.evidence.Rerun = r
	v.report.Times.Verified = r.VSA.TimeVerified
	v.judgeRerun(r, signed)
}

func (v *verification) verificationBundle() ([]byte, error) {
	if v.in.Verification != nil {
		return v.in.Verification, nil
	}
	if v.in.Packet == nil {
		return nil, fs.ErrNotExist
	}
	return readBundleFile(v.in.Packet, packet.VerificationFile)
}

// readRerun authenticates and reads the re-run. signed is the trusted time before
// which it was signed, or zero.
func (v *verification) readRerun(a *authenticator, data []byte) (r *Rerun, signed time.Time, ok bool) {
	var l lines
	auth := a.authenticate(data, packet.VerificationFile, &l)
	if auth == nil {
		c, _ := l.failed()
		v.fail(CheckRerun, CodeRerunInvalid, string(c.Code)+": "+c.Message, packet.VerificationFile)
		return nil, signed, false
	}
	r = &Rerun{Signer: auth.signer, Digest: auth.digest}
	s, _, err := predicate.ParseStatement(auth.payload)
	if err == nil {
		err = auth.whole()
	}
	if err == nil && s.PredicateType != predicate.TypeVSA {
		err = fmt.Errorf("its predicate type is %.200q, want %q", s.PredicateType, predicate.TypeVSA)
	}
	if err == nil {
		_, err = s.Decode(&r.VSA)
	}
	if err != nil {
		v.fail(CheckRerun, CodeRerunInvalid, err.Error(), packet.VerificationFile)
		return nil, signed, false
	}
	r.Self = auth.signer.Fingerprint == v.report.Signer.Fingerprint ||
		(auth.signer.Kind == "identity" && auth.signer.Identity == v.report.Signer.Identity && auth.signer.Issuer == v.report.Signer.Issuer)
	return r, auth.signed, v.rerunIsOurs(s, r)
}

// rerunIsOurs refuses a re-run of something else, or one that hides who made it.
func (v *verification) rerunIsOurs(s predicate.Statement, r *Rerun) bool {
	in := r.VSA.InputAttestations
	if s.Subject[0].Sha256() != v.report.Subject || len(in) != 1 || "sha256:"+in[0].Digest["sha256"] != v.report.Attestation || len(in[0].Digest) != 1 {
		v.fail(CheckRerun, CodeRerunOther, "the re-run is about another image or attestation", packet.VerificationFile)
		return false
	}
	label := predicate.VerifierIndependent
	if r.Self {
		label = predicate.VerifierSelf
	}
	if r.VSA.Verifier.ID != label {
		v.fail(CheckRerun, CodeRerunLabel, fmt.Sprintf("the re-run calls its verifier %.200q; its signature makes it %q", r.VSA.Verifier.ID, label), packet.VerificationFile)
		return false
	}
	if r.VSA.ResourceURI != ResourceURI(v.boundary.Image) || r.VSA.Policy.URI != predicate.VerificationPolicy || r.VSA.Policy.Digest["sha256"] != policyHex(v.boundary) {
		v.fail(CheckRerun, CodeRerunOther, "the re-run names another resource, or followed other rules", packet.VerificationFile)
		return false
	}
	return true
}

// ResourceURI is how a re-run names the image.
func ResourceURI(i manifest.Image) string { return "pkg:oci/image@" + i.Digest }

// policyHex is the digest that a re-run gives for its verification policy: that
// of the catalogue, which together with the rules of this package decides.
func policyHex(b predicate.Boundary) string {
	const prefix = len("sha256:")
	if len(b.Battery.CatalogDigest) < prefix {
		return ""
	}
	return b.Battery.CatalogDigest[prefix:]
}

func (v *verification) judgeRerun(r *Rerun, signed time.Time) {
	at, err := manifest.ParseTime(r.VSA.TimeVerified)
	attested, err2 := manifest.ParseTime(v.boundary.Attested)
	level := levelOf(r)
	passed := r.VSA.VerificationResult == predicate.ResultPassed && level != ""
	failed := r.VSA.VerificationResult == predicate.ResultFailed && len(r.VSA.VerifiedLevels) == 0
	switch {
	case err != nil || err2 != nil:
		v.fail(CheckRerun, CodeRerunInvalid, fmt.Sprintf("timeVerified %.60q is malformed", r.VSA.TimeVerified), packet.VerificationFile)
	case !passed && !failed:
		v.fail(CheckRerun, CodeRerunInvalid, fmt.Sprintf("result %.40q with levels %.100v", r.VSA.VerificationResult, r.VSA.VerifiedLevels), packet.VerificationFile)
	case failed:
		v.hold(CheckRerun, CodeRerunFailed, "the verifier's re-run of "+r.VSA.TimeVerified+" failed", packet.VerificationFile)
	case (level == predicate.LevelPartial) != v.escaped():
		v.fail(CheckRerun, CodeRerunLevel, fmt.Sprintf("the re-run confirms level %s, whether something escaped is %t", level, v.escaped()), packet.VerificationFile)
	case at.Before(attested.Add(-ClockSkew)):
		v.fail(CheckRerun, CodeRerunStale, "the re-run of "+r.VSA.TimeVerified+" is older than the attestation", packet.VerificationFile)
	case !signed.IsZero() && signed.Add(ClockSkew).Before(at):
		v.fail(CheckRerun, CodeRerunInvalid, "the re-run of "+r.VSA.TimeVerified+" was signed before that, on "+manifest.FormatTime(signed), packet.VerificationFile)
	case at.After(v.in.At.Add(ClockSkew)) || signed.After(v.in.At.Add(ClockSkew)):
		v.hold(CheckRerun, CodeRerunFuture, "the re-run of "+r.VSA.TimeVerified+" lies in the future", packet.VerificationFile)
	case r.Self && v.auth.requires(RequireIndependent):
		v.hold(CheckRerun, CodeRerunIndependent, "the re-run was signed by the attester itself, and an independent one is required", packet.VerificationFile)
	case level == predicate.LevelPartial:
		v.pass(CheckRerun, CodeRerunPartial, "re-run on "+r.VSA.TimeVerified+" by "+r.name()+": all but what the escapes contradict", packet.VerificationFile)
	case r.Self:
		v.pass(CheckRerun, CodeRerunSelf, "re-run on "+r.VSA.TimeVerified+", by the attester itself (self)", packet.VerificationFile)
	default:
		v.pass(CheckRerun, CodeRerunOK, "re-run on "+r.VSA.TimeVerified+" by "+r.Signer.name(), packet.VerificationFile)
	}
}

// levelOf is the one level that a re-run confirms, or "" where it is none of
// ours.
func levelOf(r *Rerun) string {
	for _, level := range []string{predicate.LevelBoundary, predicate.LevelPartial} {
		if slices.Equal(r.VSA.VerifiedLevels, []string{level}) {
			return level
		}
	}
	return ""
}

// escaped reports whether any vector is attested to have been escaped from.
func (v *verification) escaped() bool {
	return slices.ContainsFunc(v.boundary.Battery.Vectors, func(x predicate.Vector) bool { return x.Outcome == string(judge.Escaped) })
}

// name is how a line names who made a re-run.
func (r *Rerun) name() string {
	if r.Self {
		return "the attester itself (self)"
	}
	return r.Signer.name()
}

// name is how a line names a signer.
func (s Signer) name() string {
	if s.Kind == "identity" {
		return s.Identity
	}
	return "key " + s.Fingerprint
}
