package verify_test

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// Who signs keyless in tests.
const (
	testIdentity = "ci@example.org"
	testIssuer   = "https://issuer.example.org"
)

// virtual is a Sigstore deployment in memory: certificate authority, log and
// timestamp authority. It has no certificate log.
type virtual struct {
	*ca.VirtualSigstore
}

func newVirtual(t testing.TB) virtual {
	t.Helper()
	v, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	return virtual{v}
}

// trustedRoot is the deployment's trusted root in JSON.
func (v virtual) trustedRoot(t testing.TB) []byte {
	t.Helper()
	logs := v.RekorLogs()
	for id, l := range logs {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		l.ID = raw
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, v.FulcioCertificateAuthorities(), nil, v.TimestampingAuthorities(), logs)
	if err != nil {
		t.Fatal(err)
	}
	data, err := tr.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sign signs a statement with a fresh certificate. The log entry carries an
// integrated time, promised by signature.
func (v virtual) sign(t testing.TB, identity string, statement []byte) *protobundle.Bundle {
	t.Helper()
	e, err := v.AttestAtTime(identity, testIssuer, statement, time.Now().Add(time.Minute), true)
	if err != nil {
		t.Fatal(err)
	}
	content, err := e.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := e.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	stamps, err := e.Timestamps()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := e.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	b := &protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content:                   &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: content.Certificate().Raw}},
			TimestampVerificationData: &protobundle.TimestampVerificationData{},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: statement, PayloadType: "application/vnd.in-toto+json",
			Signatures: []*protodsse.Signature{{Sig: sig.Signature()}},
		}},
	}
	for _, s := range stamps {
		b.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps = append(b.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: s})
	}
	for _, entry := range entries {
		b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, v.promised(t, entry.TransparencyLogEntry()))
	}
	return b
}

// promised completes a log entry with its kind and the log's signed promise.
func (v virtual) promised(t testing.TB, e *protorekor.TransparencyLogEntry) *protorekor.TransparencyLogEntry {
	t.Helper()
	id, err := v.RekorLogID()
	if err != nil {
		t.Fatal(err)
	}
	promise, err := v.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(e.CanonicalizedBody), IntegratedTime: e.IntegratedTime, LogIndex: e.LogIndex, LogID: id,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.KindVersion = &protorekor.KindVersion{Kind: "dsse", Version: "0.0.1"}
	e.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	return e
}

func bundleJSON(t testing.TB, b *protobundle.Bundle) []byte {
	t.Helper()
	data, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// loggedAt makes the log promise another time for a bundle's entry, and takes the
// timestamps away.
func (v virtual) loggedAt(t testing.TB, b *protobundle.Bundle, at time.Time) {
	t.Helper()
	b.VerificationMaterial.TimestampVerificationData = nil
	b.VerificationMaterial.TlogEntries[0].IntegratedTime = at.Unix()
	v.promised(t, b.VerificationMaterial.TlogEntries[0])
}

// keyless is a packet whose attestation was signed by an identity, and what a
// verifier asks of it.
type keyless struct {
	virtual
	bundle *protobundle.Bundle
	input  verify.Input
}

func newKeyless(t testing.TB) keyless {
	t.Helper()
	v := newVirtual(t)
	p := packettest.New(t, packettest.StartedAt(time.Now().Add(-2*time.Hour)), packettest.Catalogue(small()), packettest.Signing("ecdsa-sha2-256-nistp256", ""))
	k := keyless{virtual: v, bundle: v.sign(t, testIdentity, p.Statement)}
	k.input = p.Input()
	k.input.At = time.Now().Add(2 * time.Minute)
	k.input.TrustedRoot = v.trustedRoot(t)
	k.input.VerifierTrust = &verify.Trust{Key: p.Key.Public()}
	k.input.Trust = verify.Trust{Identity: &verify.Identity{SAN: testIdentity, Issuer: testIssuer, WithoutSCT: true}}
	k.input.Verification = rerunOf(t, k.input, bundleJSON(t, k.bundle), p.Key)
	return k
}

// rerunOf is the signed re-run of a bundle.
func rerunOf(t testing.TB, in verify.Input, bundle []byte, key crypto.Signer) []byte {
	t.Helper()
	in.Bundle, in.WithoutRerun = bundle, true
	signer, err := attest.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	r, err := attest.SignVerification(context.Background(), verify.Verify(in), signer, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return r.Bundle
}

// verify verifies a changed copy of the bundle.
func (k keyless) verify(t testing.TB, change func(b *protobundle.Bundle, in *verify.Input)) verify.Report {
	t.Helper()
	b, in := proto.CloneOf(k.bundle), k.input
	identity := *in.Trust.Identity
	in.Trust.Identity = &identity
	if change != nil {
		change(b, &in)
	}
	in.Bundle = bundleJSON(t, b)
	return verify.Verify(in)
}

func TestIdentity(t *testing.T) {
	k := newKeyless(t)
	other := newKeyless(t)
	material := func(b *protobundle.Bundle) *protobundle.VerificationMaterial { return b.VerificationMaterial }
	for _, c := range []struct {
		name   string
		change func(b *protobundle.Bundle, in *verify.Input)
		want   verify.Code
		valid  bool
	}{
		{"as it is", nil, verify.CodeSignerIdentity, true},
		{"timestamp", nil, verify.CodeTimeTimestamp, true},
		{"log", nil, verify.CodeTransparencyOK, true},
		{"pattern", func(_ *protobundle.Bundle, in *verify.Input) {
			in.Trust.Identity.SAN, in.Trust.Identity.SANPattern = "", `.*@example\.org`
		}, verify.CodeSignerIdentity, true},
		{"without timestamp the log's promise counts", func(b *protobundle.Bundle, _ *verify.Input) { material(b).TimestampVerificationData = nil }, verify.CodeTimeLog, true},
		{"another identity", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust.Identity.SAN = "other@example.org" }, verify.CodeIdentityMismatch, false},
		{"another issuer", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust.Identity.Issuer += "/" }, verify.CodeIdentityMismatch, false},
		{"no identity", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust.Identity.SAN = "" }, verify.CodeIdentityPattern, false},
		{"no issuer", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust.Identity.Issuer = "" }, verify.CodeIdentityPattern, false},
		{"exact and pattern", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust.Identity.SANPattern = ".*" }, verify.CodeIdentityPattern, false},
		{"pattern that breaks out of its group", func(_ *protobundle.Bundle, in *verify.Input) {
			in.Trust.Identity.SAN, in.Trust.Identity.SANPattern = "", `x)|(.*`
		}, verify.CodeIdentityPattern, false},
		{"asked for a key", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust = verify.Trust{Key: newKey(t).Public()} }, verify.CodeSignerNotKey, false},
		{"no certificate log", func(_ *protobundle.Bundle, in *verify.Input) { in.Trust.Identity.WithoutSCT = false }, verify.CodeCertificateSCT, false},
		{"another deployment's root", func(_ *protobundle.Bundle, in *verify.Input) { in.TrustedRoot = other.input.TrustedRoot }, verify.CodeTransparencyBad, false},
		{"embedded root", func(_ *protobundle.Bundle, in *verify.Input) { in.TrustedRoot = nil }, verify.CodeTransparencyBad, false},
		{"no log entry", func(b *protobundle.Bundle, _ *verify.Input) { material(b).TlogEntries = nil }, verify.CodeTransparencyMissing, false},
		{"another's log entry", func(b *protobundle.Bundle, _ *verify.Input) {
			material(b).TlogEntries = other.bundle.VerificationMaterial.TlogEntries
		}, verify.CodeTransparencyBad, false},
		{"log entry twice", func(b *protobundle.Bundle, _ *verify.Input) {
			material(b).TlogEntries = append(material(b).TlogEntries, material(b).TlogEntries...)
		}, verify.CodeTransparencyBad, false},
		{"another's timestamp", func(b *protobundle.Bundle, _ *verify.Input) {
			material(b).TimestampVerificationData = other.bundle.VerificationMaterial.TimestampVerificationData
		}, verify.CodeTimeTimestampBad, false},
		{"another's certificate", func(b *protobundle.Bundle, _ *verify.Input) {
			material(b).Content = other.bundle.VerificationMaterial.Content
		}, verify.CodeSignatureInvalid, false},
		{"another's signature", func(b *protobundle.Bundle, _ *verify.Input) {
			b.GetDsseEnvelope().Signatures = other.bundle.GetDsseEnvelope().Signatures
		}, verify.CodeSignatureInvalid, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := k.verify(t, c.change)
			if (r.Verdict == verify.Valid) != c.valid || (c.want != "" && !r.Has(c.want)) {
				t.Errorf("%s, want valid %v with %s:%s", r.Verdict, c.valid, c.want, explain(r))
			}
			if !c.valid && r.Verdict != verify.Invalid {
				t.Errorf("%s is not invalid", r.Verdict)
			}
		})
	}
}

// E23: a pattern describes the whole identity, from its first to its last
// character.
func TestE23IdentityPatternIsAnchored(t *testing.T) {
	const pattern = `.*@example\.org`
	k := newKeyless(t)
	statement := k.bundle.GetDsseEnvelope().Payload
	for identity, want := range map[string]bool{
		"evil@example.org.attacker":      false,
		"evil@example.org":               true,
		"a@example.org@attacker.example": false,
	} {
		b := k.sign(t, identity, statement)
		r := k.verify(t, func(dest *protobundle.Bundle, in *verify.Input) {
			proto.Reset(dest)
			proto.Merge(dest, b)
			in.Trust.Identity.SAN, in.Trust.Identity.SANPattern = "", pattern
		})
		if got := !r.Has(verify.CodeIdentityMismatch); got != want {
			t.Errorf("%s matches %s: %v, want %v:%s", identity, pattern, got, want, explain(r))
		}
	}
}

// A key signature may carry a timestamp and a log entry too; they must be good
// where their authority is known.
func TestKeyWithTimestamp(t *testing.T) {
	p := packettest.New(t, packettest.StartedAt(time.Now().Add(-2*time.Hour)), packettest.Catalogue(small()))
	v, stranger := newVirtual(t), newVirtual(t)
	b := new(protobundle.Bundle)
	if err := protojson.Unmarshal(p.Files[packet.AttestationFile], b); err != nil {
		t.Fatal(err)
	}
	stamp, err := v.TimestampResponse(b.GetDsseEnvelope().Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := v.TimestampResponse([]byte("another signature"))
	if err != nil {
		t.Fatal(err)
	}
	with := func(stamps ...[]byte) []byte {
		c := proto.CloneOf(b)
		c.VerificationMaterial.TimestampVerificationData = &protobundle.TimestampVerificationData{}
		for _, s := range stamps {
			c.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps = append(c.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: s})
		}
		return bundleJSON(t, c)
	}
	for _, c := range []struct {
		name    string
		bundle  []byte
		root    []byte
		want    verify.Code
		verdict verify.Verdict
	}{
		{"good", with(stamp), v.trustedRoot(t), verify.CodeTimeTimestamp, verify.Valid},
		{"of another signature", with(wrong), v.trustedRoot(t), verify.CodeTimeTimestampBad, verify.Invalid},
		{"a good and a bad one", with(stamp, wrong), v.trustedRoot(t), verify.CodeTimeTimestampBad, verify.Invalid},
		{"unknown authority in a given root", with(stamp), stranger.trustedRoot(t), verify.CodeTimeTimestampBad, verify.Invalid},
		{"unknown authority in the embedded root", with(stamp), nil, verify.CodeTimeAsserted, verify.Valid},
		{"none", with(), v.trustedRoot(t), verify.CodeTimeAsserted, verify.Valid},
	} {
		in := p.Input()
		in.At = time.Now().Add(time.Minute)
		in.Bundle, in.TrustedRoot = c.bundle, c.root
		if r := verify.Verify(in); r.Verdict != c.verdict || !r.Has(c.want) {
			t.Errorf("%s: %s, want %s with %s:%s", c.name, r.Verdict, c.verdict, c.want, explain(r))
		}
	}
}
