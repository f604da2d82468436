package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io/fs"
	"maps"
	"math/big"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// The lines of a valid packet about which nothing more was asked.
func TestLinesOfWhatWasNotAsked(t *testing.T) {
	r := verify.Verify(smallPacket(t).Input())
	for _, code := range []verify.Code{verify.CodeStatementOK, verify.CodeSubjectUnasked, verify.CodeAdmissionNone, verify.CodeImageUnknown, verify.CodePolicyUnknown,
		verify.CodeLatchUnknown, verify.CodeScorecardNone} {
		wantCode(t, r, verify.Valid, code)
	}
	in := smallPacket(t).Input()
	in.WithoutRerun = true
	wantCode(t, verify.Verify(in), verify.Valid, verify.CodeRerunSkipped)
}

// Packets that somebody with the key signed over what cannot be.
func TestForgedRestOfThePacket(t *testing.T) {
	late := []byte(`{"criticalEscapes":0,"engagement":"x","lastRun":"2026-11-02T00:00:00Z","schema":"` + packet.RedTeamSchema + `","target":"` + packettest.ImageDigest + `"}`)
	// A vector of which nothing must be conclusive, and nothing is.
	optional, silent := small(), []string{}
	for i := range optional {
		if optional[i].Vector == optional[len(optional)-1].Vector {
			optional[i].Required = false
			silent = append(silent, optional[i].ID)
		}
	}
	for _, c := range []struct {
		name    string
		option  packettest.Option
		verdict verify.Verdict
		code    verify.Code
	}{
		{"admission unknown", packettest.Run(func(r *manifest.Run) { r.Admission = &manifest.Admission{State: "perhaps"} }), verify.Invalid, verify.CodeAdmissionState},
		{"admitted under no policy", packettest.Run(func(r *manifest.Run) { r.Admission = &manifest.Admission{State: manifest.AdmissionAdmitted} }), verify.Invalid, verify.CodeAdmissionState},
		{"the red team came after the attestation", packettest.Files(func(m packet.Memory) { m[packet.RedTeamFile] = late }), verify.Invalid, verify.CodeRedTeamTime},
		{"a red-team result that is none", packettest.Files(func(m packet.Memory) { m[packet.RedTeamFile] = []byte("{}") }), verify.Invalid, verify.CodeRedTeamMalformed},
		{"a threat model that is none", packettest.Files(func(m packet.Memory) { m[packet.ThreatModelMD] = []byte("# nothing\n") }), verify.Invalid, verify.CodeThreatModelMalformed},
		{"a file that was not searched", proof(func(r *packet.Redaction) { r.Scanned = r.Scanned[1:] }), verify.Invalid, verify.CodeRedactionCoverage},
		{"an encoding twice", proof(func(r *packet.Redaction) { r.Encodings = append(r.Encodings, r.Encodings[0]) }), verify.Invalid, verify.CodeRedactionForm},
	} {
		t.Run(c.name, func(t *testing.T) { wantCode(t, forged(t, c.option), c.verdict, c.code) })
	}
	wantCode(t, forged(t, packettest.Catalogue(optional), packettest.ControlSilent(silent...)), verify.VerdictHeld, verify.CodeVectorNotTested)
}

// faulty is a packet of which one file, or the folder, cannot be read.
type faulty struct {
	packet.Memory
	name string
}

var errDisk = errors.New("input/output error")

type faultyFile struct{ fs.File }

func (faultyFile) Read([]byte) (int, error) { return 0, errDisk }

func (f faulty) Open(name string) (fs.File, error) {
	file, err := f.Memory.Open(name)
	if err == nil && name == f.name {
		file = faultyFile{file}
	}
	return file, err
}

// A disk that fails is told from evidence that is forged.
func TestDiskThatFails(t *testing.T) {
	p := smallPacket(t)
	in := p.Input()
	in.Packet = faulty{p.Files, packet.ManifestFile}
	wantCode(t, verify.Verify(in), verify.Invalid, verify.Code(packet.ReasonRead))
	in.Packet = faulty{p.Files, packet.AttestationFile}
	wantCode(t, verify.Verify(in), verify.Invalid, verify.Code(packet.ReasonRead))
	unsigned := maps.Clone(p.Files)
	delete(unsigned, packet.AttestationFile)
	in.Packet = faulty{unsigned, packet.ManifestFile}
	wantCode(t, verify.Verify(in), verify.Invalid, verify.Code(manifest.ReasonRead))
	in.Packet = packet.Broken(&packet.Error{Reason: packet.ReasonArchive, Detail: "cut short"})
	wantCode(t, verify.Verify(in), verify.Invalid, verify.Code(packet.ReasonArchive))
}

func TestKeysThatNobodyShouldUse(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.PublicKey{weak.Public(), "a key"} {
		in := smallPacket(t).Input()
		in.Trust.Key = key
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeTrustAlgorithm)
	}
}

// privateCA is a deployment that has a certificate authority and nothing else.
type privateCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newCA makes an authority that has been there since before the run of a packet.
func newCA(t *testing.T) privateCA {
	t.Helper()
	return newCABetween(t, packettest.Started.Add(-time.Hour), packettest.Now.Add(time.Hour))
}

func newCABetween(t *testing.T, from, until time.Time) privateCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return privateCA{cert, key}
}

func (c privateCA) trustedRoot(t *testing.T) []byte {
	t.Helper()
	return rootWith(t, c)
}

// sign signs a statement with a fresh certificate, changed before it is issued.
func (c privateCA) sign(t *testing.T, statement []byte, change func(*x509.Certificate)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), EmailAddresses: []string{testIdentity}, NotBefore: packettest.Now.Add(-time.Minute), NotAfter: packettest.Now.Add(time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(testIssuer)}}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(dsse.PAE(predicate.PayloadType, statement))
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return bundleJSON(t, &protobundle.Bundle{
		MediaType:            "application/vnd.dev.sigstore.bundle.v0.3+json",
		VerificationMaterial: &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: der}}},
		Content:              &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{Payload: statement, PayloadType: predicate.PayloadType, Signatures: []*protodsse.Signature{{Sig: sig}}}},
	})
}

// Certificates of a private deployment, each wrong in one thing.
func TestCertificatesThatDoNotCount(t *testing.T) {
	own, other := newCA(t), newCA(t)
	p := smallPacket(t, packettest.Signing("ecdsa-sha2-256-nistp256", ""))
	for _, c := range []struct {
		name   string
		ca     privateCA
		change func(*x509.Certificate)
		at     time.Duration
		code   verify.Code
	}{
		{"as it should be", own, nil, 0, ""},
		{"in its first second", own, nil, -time.Minute, ""},
		{"in its last second", own, nil, time.Minute, ""},
		{"a second too early", own, nil, -time.Minute - time.Second, verify.CodeTimeCertificate},
		{"a second too late", own, nil, time.Minute + time.Second, verify.CodeTimeCertificate},
		{"of another authority of that name", other, nil, 0, verify.CodeCertificateChain},
		{"not for signing", own, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, 0, verify.CodeCertificateChain},
		{"with a critical extension that nobody knows", own, func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}})
		}, 0, verify.CodeBundleRefused},
		{"without an issuer", own, func(c *x509.Certificate) { c.ExtraExtensions = nil }, 0, verify.CodeIdentityMismatch},
		{"of a longer name", own, func(c *x509.Certificate) { c.EmailAddresses = []string{testIdentity + ".attacker.example"} }, 0, verify.CodeIdentityMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := p.Input()
			in.At = packettest.Now.Add(c.at)
			in.TrustedRoot, in.WithoutRerun = own.trustedRoot(t), true
			in.Trust = verify.Trust{Identity: &verify.Identity{SAN: testIdentity, Issuer: testIssuer, WithoutSCT: true, WithoutLog: true, WithoutTimestamp: true}}
			in.Bundle = c.ca.sign(t, p.Statement, c.change)
			r := verify.Verify(in)
			if c.code == "" {
				wantCode(t, r, verify.Valid, verify.CodeSignerIdentity)
				return
			}
			wantCode(t, r, verify.Invalid, c.code)
		})
	}
	if bytes.Equal(own.cert.Raw, other.cert.Raw) {
		t.Error("one authority, not two")
	}
}
