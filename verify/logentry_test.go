package verify_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekor "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	"github.com/sigstore/sigstore-go/pkg/root"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify"
)

// E9: an integrated time is evidence of the time of signing only where the log
// promised it by signature. Without a timestamp there is then no trusted time, and a
// short-lived certificate counts for nothing.
func TestE9IntegratedTimeWithoutPromise(t *testing.T) {
	k, other := newKeyless(t), newKeyless(t)
	entry := func(b *protobundle.Bundle) *protorekor.TransparencyLogEntry {
		b.VerificationMaterial.TimestampVerificationData = nil
		return b.VerificationMaterial.TlogEntries[0]
	}
	for name, c := range map[string]struct {
		change func(b *protobundle.Bundle)
		want   verify.Code
	}{
		"promised":                   {func(b *protobundle.Bundle) { entry(b) }, verify.CodeTimeLog},
		"no promise":                 {func(b *protobundle.Bundle) { entry(b).InclusionPromise = nil }, verify.CodeTimeMissing},
		"empty promise":              {func(b *protobundle.Bundle) { entry(b).InclusionPromise.SignedEntryTimestamp = nil }, verify.CodeTimeMissing},
		"promise of another log":     {func(b *protobundle.Bundle) { entry(b).InclusionPromise = entry(other.bundle).InclusionPromise }, verify.CodeTransparencyBad},
		"another time":               {func(b *protobundle.Bundle) { entry(b).IntegratedTime++ }, verify.CodeTransparencyBad},
		"another index":              {func(b *protobundle.Bundle) { entry(b).LogIndex++ }, verify.CodeTransparencyBad},
		"another time, not promised": {func(b *protobundle.Bundle) { e := entry(b); e.IntegratedTime++; e.InclusionPromise = nil }, verify.CodeTimeMissing},
	} {
		t.Run(name, func(t *testing.T) {
			r := k.verify(t, func(b *protobundle.Bundle, _ *verify.Input) { c.change(b) })
			if valid := c.want == verify.CodeTimeLog; (r.Verdict == verify.Valid) != valid || !r.Has(c.want) || (!valid && r.Verdict != verify.Invalid) {
				t.Errorf("%s, want %s:%s", r.Verdict, c.want, explain(r))
			}
		})
	}
}

// ownLog is a transparency log of the second version with one entry.
type ownLog struct {
	key *ecdsa.PrivateKey
}

const logOrigin = "log.example.org"

func (l ownLog) public(t *testing.T) (der []byte, id [sha256.Size]byte) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(l.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return der, sha256.Sum256(der)
}

// trustedRoot is of a deployment that has this log and nothing else.
func (l ownLog) trustedRoot(t *testing.T) []byte {
	t.Helper()
	_, id := l.public(t)
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, nil, nil, nil, map[string]*root.TransparencyLog{hex.EncodeToString(id[:]): {
		BaseURL: "https://" + logOrigin, ID: id[:], ValidityPeriodStart: packettest.Started.Add(-time.Hour), HashFunc: crypto.SHA256, PublicKey: l.key.Public(), SignatureHashFunc: crypto.SHA256,
	}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := tr.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// log is the log's entry for a signature by a key over what has that digest.
func (l ownLog) log(t *testing.T, key crypto.PublicKey, signature []byte, algorithm protocommon.HashAlgorithm, digest []byte) *protorekor.TransparencyLogEntry {
	t.Helper()
	signer, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := protojson.Marshal(&rekor.Entry{ApiVersion: "0.0.2", Kind: "hashedrekord", Spec: &rekor.Spec{Spec: &rekor.Spec_HashedRekordV002{HashedRekordV002: &rekor.HashedRekordLogEntryV002{
		Data: &protocommon.HashOutput{Algorithm: algorithm, Digest: digest},
		Signature: &rekor.Signature{Content: signature, Verifier: &rekor.Verifier{
			KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256, Verifier: &rekor.Verifier_PublicKey{PublicKey: &rekor.PublicKey{RawBytes: signer}},
		}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	if body, err = canon.Canonicalize(body, canon.Limits{}); err != nil {
		t.Fatal(err)
	}
	leaf := sha256.Sum256(append([]byte{0}, body...)) // RFC 6962
	_, id := l.public(t)
	text := fmt.Sprintf("%s\n1\n%s\n", logOrigin, base64.StdEncoding.EncodeToString(leaf[:]))
	sum := sha256.Sum256([]byte(text))
	sig, err := ecdsa.SignASN1(rand.Reader, l.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	note := fmt.Sprintf("%s\n\u2014 %s %s\n", text, logOrigin, base64.StdEncoding.EncodeToString(append(id[:4:4], sig...)))
	return &protorekor.TransparencyLogEntry{
		LogId: &protocommon.LogId{KeyId: id[:]}, KindVersion: &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"}, CanonicalizedBody: body,
		InclusionProof: &protorekor.InclusionProof{TreeSize: 1, RootHash: leaf[:], Checkpoint: &protorekor.Checkpoint{Envelope: note}},
	}
}

// E10: a log that takes signatures over digests has an envelope's entry over its
// pre-authentication encoding, which is what was signed. An entry over the payload, or
// over anything else that is near, is of another signature.
func TestE10LogEntryIsOverTheSignedBytes(t *testing.T) {
	p := smallPacket(t)
	var b protobundle.Bundle
	if err := protojson.Unmarshal(p.Files[packet.AttestationFile], &b); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	l := ownLog{key}
	e := b.GetDsseEnvelope()
	of := func(data []byte) []byte {
		sum := sha256.Sum256(data)
		return sum[:]
	}
	long := sha512.Sum512(dsse.PAE(e.PayloadType, e.Payload))
	sha2 := protocommon.HashAlgorithm_SHA2_256
	for name, c := range map[string]struct {
		algorithm protocommon.HashAlgorithm
		digest    []byte
		valid     bool
	}{
		"encoding":                         {sha2, of(dsse.PAE(e.PayloadType, e.Payload)), true},
		"payload":                          {sha2, of(e.Payload), false},
		"payload in base64":                {sha2, of([]byte(base64.StdEncoding.EncodeToString(e.Payload))), false},
		"signature":                        {sha2, of(e.Signatures[0].Sig), false},
		"encoding with another type":       {sha2, of(dsse.PAE("application/json", e.Payload)), false},
		"digest of the digest":             {sha2, of(of(dsse.PAE(e.PayloadType, e.Payload))), false},
		"encoding under another algorithm": {protocommon.HashAlgorithm_SHA2_512, long[:], false},
	} {
		t.Run(name, func(t *testing.T) {
			b.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{l.log(t, p.Key.Public(), e.Signatures[0].Sig, c.algorithm, c.digest)}
			in := p.Input()
			in.Bundle, in.TrustedRoot, in.WithoutRerun = bundleJSON(t, &b), l.trustedRoot(t), true
			r := verify.Verify(in)
			if c.valid {
				wantCode(t, r, verify.Valid, verify.CodeTransparencyOK)
			} else {
				wantCode(t, r, verify.Invalid, verify.CodeTransparencyBad)
			}
		})
	}
}
