package verify_test

import (
	"crypto"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// stamped is a bundle with timestamps of its signature, made now.
func stamped(t *testing.T, v virtual, bundle []byte, also ...[]byte) []byte {
	t.Helper()
	b := new(protobundle.Bundle)
	if err := protojson.Unmarshal(bundle, b); err != nil {
		t.Fatal(err)
	}
	stamp, err := v.TimestampResponse(b.GetDsseEnvelope().Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	data := &protobundle.TimestampVerificationData{}
	for _, s := range append([][]byte{stamp}, also...) {
		data.Rfc3161Timestamps = append(data.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: s})
	}
	b.VerificationMaterial.TimestampVerificationData = data
	return bundleJSON(t, b)
}

// Clocks that disagree: the signer's, the timestamp authority's, the verifier's. A
// few minutes are forgiven.
func TestClocks(t *testing.T) {
	v := newVirtual(t)
	now := time.Now()
	for _, c := range []struct {
		name              string
		attested          time.Duration // from now, as the signer's clock has it; the timestamps say now
		verified, rerunAt time.Duration // when it is asked, and when the re-run says that it was
		bare              bool          // without timestamps
		verdict           verify.Verdict
		code              verify.Code
	}{
		{"in order", -time.Hour, time.Minute, 0, false, verify.Valid, verify.CodeCurrent},
		{"the signer's clock a little fast", 3 * time.Minute, 10 * time.Minute, 3 * time.Minute, false, verify.Valid, verify.CodeCurrent},
		{"signed before it was attested", time.Hour, 3 * time.Hour, 2 * time.Hour, false, verify.Invalid, verify.CodeTimesOrder},
		{"attested in the future", time.Hour, 0, 0, true, verify.VerdictHeld, verify.CodeNotYet},
		{"attested a little in the future", 3 * time.Minute, 0, 0, true, verify.Valid, verify.CodeCurrent},
		{"signed in the future", -2 * time.Hour, -time.Hour, -time.Hour, false, verify.VerdictHeld, verify.CodeNotYet},
		{"asked about a moment before the run", -time.Hour, -24 * time.Hour, 0, true, verify.VerdictHeld, verify.CodeNotYet},
		{"the re-run older than the attestation", -time.Hour, time.Minute, -90 * time.Minute, true, verify.Invalid, verify.CodeRerunStale},
		{"the re-run in the future", -time.Hour, time.Minute, time.Hour, true, verify.VerdictHeld, verify.CodeRerunFuture},
		{"the re-run signed before it was made", -time.Hour, 3 * time.Hour, 2 * time.Hour, false, verify.Invalid, verify.CodeRerunInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := packettest.New(t, packettest.StartedAt(now.Add(c.attested-time.Hour)), packettest.Catalogue(small()))
			in := p.Input()
			in.Bundle, in.At, in.TrustedRoot = p.Files[packet.AttestationFile], now.Add(c.verified), v.trustedRoot(t)
			in.Verification = rerunSaying(t, in, now.Add(c.rerunAt), p.Key)
			if !c.bare {
				in.Bundle, in.Verification = stamped(t, v, in.Bundle), stamped(t, v, in.Verification)
			}
			wantCode(t, verify.Verify(in), c.verdict, c.code)
		})
	}
}

// rerunSaying is a signed re-run that says it was made at a moment.
func rerunSaying(t *testing.T, in verify.Input, at time.Time, key crypto.Signer) []byte {
	t.Helper()
	in.WithoutRerun = true
	report := verify.Verify(in)
	report.Times.Checked = manifest.FormatTime(at)
	signer, err := attest.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	r, err := attest.SignVerification(t.Context(), report, signer, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return r.Bundle
}

// A binding that says it was made after its timestamp is refused its word.
func TestClocksOfBindings(t *testing.T) {
	v := newVirtual(t)
	now := time.Now()
	p := packettest.New(t, packettest.StartedAt(now.Add(-2*time.Hour)), packettest.Catalogue(small()))
	in := p.Input()
	in.At, in.TrustedRoot = now.Add(3*time.Hour), v.trustedRoot(t)
	in.Scorecard = []byte(`{"schema":"wallproof.scorecard/v1","kind":"create","id":"s","produced":"` + manifest.FormatTime(now.Add(-30*time.Minute)) + `","image":"` + packettest.ImageDigest + `","policy":"` + p.Policy + `"}`)
	signer, err := attest.NewKeySigner(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	report := verify.Verify(in)
	for _, c := range []struct {
		name    string
		bound   time.Duration // from now; the timestamp says now
		verdict verify.Verdict
		code    verify.Code
	}{
		{"bound when it was signed", 0, verify.Valid, verify.CodeScorecardOK},
		{"a clock a little fast", 3 * time.Minute, verify.Valid, verify.CodeScorecardOK},
		{"signed before it was bound", 2 * time.Hour, verify.VerdictHeld, verify.CodeBindingTime},
		{"bound before the scorecard was produced", -time.Hour, verify.VerdictHeld, verify.CodeBindingTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := attest.SignBinding(t.Context(), report, in.Scorecard, signer, now.Add(c.bound))
			if err != nil {
				t.Fatal(err)
			}
			in := in
			in.Binding = stamped(t, v, r.Bundle)
			wantCode(t, verify.Verify(in), c.verdict, c.code)
		})
	}
}
