package verify_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/digitorus/timestamp"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// ownTSA is a timestamp authority whose clock says what a test wants. Beside the time
// that it attests, a token has the time at which it was signed, which is the present,
// and an authority's certificate must be valid at both: so these tests are of today.
type ownTSA struct {
	name       string
	root, leaf *x509.Certificate
	key        *ecdsa.PrivateKey
	until      time.Time // when a trusted root says that it ended; zero: it goes on
}

// newTSA makes an authority whose certificate is changed before it is issued.
func newTSA(t *testing.T, name string, now time.Time, change func(*x509.Certificate)) ownTSA {
	t.Helper()
	issuer, key := newCABetween(t, now.Add(-26*time.Hour), now.Add(2*time.Hour)), newKey(t)
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return ownTSA{name: name, root: issuer.cert, leaf: leaf, key: key}
}

// stamp says that a signature was there at a moment.
func (a ownTSA) stamp(t *testing.T, sig []byte, at time.Time) []byte {
	t.Helper()
	sum := sha256.Sum256(sig)
	s := timestamp.Timestamp{HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Time: at, Policy: asn1.ObjectIdentifier{1, 2, 3}}
	out, err := s.CreateResponseWithOpts(a.leaf, a.key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rootWith is the trusted root of an authority for certificates and some for time.
func rootWith(t *testing.T, issuer privateCA, list ...ownTSA) []byte {
	t.Helper()
	var stampers []root.TimestampingAuthority
	for _, a := range list {
		stampers = append(stampers, &root.SigstoreTimestampingAuthority{Root: a.root, Leaf: a.leaf, ValidityPeriodStart: a.root.NotBefore, ValidityPeriodEnd: a.until, URI: "https://" + a.name})
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: issuer.cert, ValidityPeriodStart: issuer.cert.NotBefore, URI: "https://ca.example.org"}}, nil, stampers, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := tr.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// said is one timestamp, how far from now.
type said struct {
	by ownTSA
	at time.Duration
}

// witnessed is a bundle with timestamps.
func witnessed(t *testing.T, bundle []byte, now time.Time, list []said) []byte {
	t.Helper()
	b := new(protobundle.Bundle)
	if err := protojson.Unmarshal(bundle, b); err != nil {
		t.Fatal(err)
	}
	data := &protobundle.TimestampVerificationData{}
	for _, s := range list {
		data.Rfc3161Timestamps = append(data.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{
			SignedTimestamp: s.by.stamp(t, b.GetDsseEnvelope().Signatures[0].Sig, now.Add(s.at))})
	}
	b.VerificationMaterial.TimestampVerificationData = data
	return bundleJSON(t, b)
}

// Timestamps that their authority could not give, or that the signing certificate was
// not valid at: by a certificate (valid a minute to each side of now) and by a key,
// which has no end. Asked half an hour later. Each in whatever order they stand.
func TestTimestampsThatDoNotCount(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	tsa := func(change func(*x509.Certificate)) ownTSA { return newTSA(t, "a.example.org", now, change) }
	const end = 10 * time.Minute // of an authority's certificate
	good, stranger, second := tsa(nil), tsa(nil), newTSA(t, "b.example.org", now, nil)
	expired := tsa(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) })
	future := tsa(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) })
	purpose := tsa(func(c *x509.Certificate) {
		c.ExtraExtensions, c.ExtKeyUsage = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	})
	ended, ending := good, good
	ended.until, ending.until = now.Add(-time.Second), now
	own := newCABetween(t, now.Add(-26*time.Hour), now.Add(2*time.Hour))
	started := packettest.StartedAt(now.Add(-24 * time.Hour))
	p, byKey := smallPacket(t, started, packettest.Signing("ecdsa-sha2-256-nistp256", "")), smallPacket(t, started)
	issued := own.sign(t, p.Statement, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Minute), now.Add(time.Minute) })
	bad, outside := verify.CodeTimeTimestampBad, verify.CodeTimeCertificate
	for _, c := range []struct {
		name   string
		known  []ownTSA
		stamps []said
		code   verify.Code // by certificate; "" for valid
		key    verify.Code // by key
	}{
		{"good", []ownTSA{good}, []said{{good, 0}}, "", ""},
		{"two that agree", []ownTSA{good, second}, []said{{good, 0}, {second, time.Second}}, "", ""},
		{"in the certificate's first second", []ownTSA{good}, []said{{good, -time.Minute}}, "", ""},
		{"in its last second", []ownTSA{good}, []said{{good, time.Minute}}, "", ""},
		{"a second before the certificate", []ownTSA{good}, []said{{good, -time.Minute - time.Second}}, outside, ""},
		{"a second after it", []ownTSA{good}, []said{{good, time.Minute + time.Second}}, outside, ""},
		{"one of two after it", []ownTSA{good, second}, []said{{good, 0}, {second, 2 * time.Minute}}, outside, ""},
		{"by an expired authority", []ownTSA{expired}, []said{{expired, 0}}, bad, bad},
		{"by an expired authority, dated back", []ownTSA{expired}, []said{{expired, -30 * time.Second}}, bad, bad},
		{"a second after the authority's end", []ownTSA{good}, []said{{good, end + time.Second}}, bad, bad},
		{"in the authority's last second", []ownTSA{good}, []said{{good, end}}, outside, ""},
		{"by one that is not there yet", []ownTSA{future}, []said{{future, 0}}, bad, bad},
		{"by one that the trusted root ended", []ownTSA{ended}, []said{{ended, 0}}, bad, bad},
		{"in the last second that the trusted root gives", []ownTSA{ending}, []said{{ending, 0}}, "", ""},
		{"by a certificate for another purpose", []ownTSA{purpose}, []said{{purpose, 0}}, bad, bad},
		{"by a stranger of that name", []ownTSA{good}, []said{{stranger, 0}}, bad, bad},
		{"by a stranger beside a good one", []ownTSA{good}, []said{{good, 0}, {stranger, 0}}, bad, bad},
		{"by an expired authority beside a good one", []ownTSA{good, expired}, []said{{good, 0}, {expired, 0}}, bad, bad},
		{"many of one authority", []ownTSA{good}, slices.Repeat([]said{{good, 0}}, 40), bad, bad},
	} {
		for range 2 {
			slices.Reverse(c.stamps)
			in := p.Input()
			in.At, in.TrustedRoot, in.WithoutRerun = now.Add(30*time.Minute), rootWith(t, own, c.known...), true
			in.Trust = verify.Trust{Identity: &verify.Identity{SAN: testIdentity, Issuer: testIssuer, WithoutSCT: true, WithoutLog: true}}
			in.Bundle = witnessed(t, issued, now, c.stamps)
			demand(t, c.name, verify.Verify(in), c.code, verify.CodeTimeTimestamp)
			// That the deployment has no timestamps does not make a bad one good.
			in.Trust.Identity.WithoutTimestamp = true
			demand(t, c.name+", none needed", verify.Verify(in), c.code, verify.CodeTimeTimestamp)

			in = byKey.Input()
			in.At, in.TrustedRoot, in.WithoutRerun = now.Add(30*time.Minute), rootWith(t, own, c.known...), true
			in.Bundle = witnessed(t, byKey.Files[packet.AttestationFile], now, c.stamps)
			demand(t, c.name+", by key", verify.Verify(in), c.key, verify.CodeTimeTimestamp)
		}
	}
}

// demand wants a refusal with one code, or, where that is empty, a valid report with
// another.
func demand(t *testing.T, name string, r verify.Report, refused, valid verify.Code) {
	t.Helper()
	want, verdict := refused, verify.Invalid
	if refused == "" {
		want, verdict = valid, verify.Valid
	}
	if r.Verdict != verdict || !r.Has(want) {
		t.Errorf("%s: %s, want %s with %s:%s", name, r.Verdict, verdict, want, explain(r))
	}
}

// Where a deployment has no timestamps, the time that its log promised is the one that
// a certificate must have been valid at, not the moment asked about.
func TestLogTimeOutsideTheCertificate(t *testing.T) {
	k := newKeyless(t)
	leaf, err := x509.ParseCertificate(k.bundle.VerificationMaterial.GetCertificate().RawBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		at     time.Time
		asked  time.Time
		code   verify.Code
		silent bool // the log does not promise its time
	}{
		{"in its last second", leaf.NotAfter, leaf.NotAfter.Add(time.Hour), "", false},
		{"in its first second", leaf.NotBefore, leaf.NotAfter.Add(time.Hour), "", false},
		{"a second after it", leaf.NotAfter.Add(time.Second), leaf.NotAfter.Add(time.Hour), verify.CodeTransparencyBad, false},
		{"a second after it, asked while it was valid", leaf.NotAfter.Add(time.Second), leaf.NotAfter, verify.CodeTransparencyBad, false},
		{"a second before it", leaf.NotBefore.Add(-time.Second), leaf.NotAfter.Add(time.Hour), verify.CodeTransparencyBad, false},
		{"not promised, asked after it", leaf.NotBefore, leaf.NotAfter.Add(time.Second), verify.CodeTimeCertificate, true},
	} {
		for _, without := range []bool{true, false} {
			r := k.verify(t, func(b *protobundle.Bundle, in *verify.Input) {
				k.loggedAt(t, b, c.at)
				if c.silent {
					b.VerificationMaterial.TlogEntries[0].InclusionPromise = nil
				}
				in.At, in.WithoutRerun, in.Trust.Identity.WithoutTimestamp = c.asked, true, without
			})
			code := c.code
			if c.silent && !without {
				code = verify.CodeTimeMissing
			}
			demand(t, c.name, r, code, verify.CodeTimeLog)
		}
	}
}
