package verify_test

import (
	"bytes"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// FuzzBundle hands the verifier any bytes as a bundle. Whatever it accepts must
// carry exactly the signed statement.
func FuzzBundle(f *testing.F) {
	p := packettest.New(f, packettest.Catalogue(small()[:3]))
	good := p.Files[packet.AttestationFile]
	f.Add(good)
	f.Add(p.Files[packet.VerificationFile])
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{}},"dsseEnvelope":{"payload":"","payloadType":"","signatures":[{"sig":""}]}}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := p.Input()
		in.Packet, in.Bundle, in.Verification = nil, data, p.Files[packet.VerificationFile]
		r := verify.Verify(in)
		if r.Verdict != verify.Invalid && !bytes.Equal(r.Evidence.Payload, p.Statement) {
			t.Fatalf("%s for a payload that was never signed", r.Verdict)
		}
		if r.Verdict == verify.Invalid && len(r.Failed()) == 0 {
			t.Fatal("invalid without a reason")
		}
		everyCheckOnce(t, r)
	})
}

// FuzzStatement hands any bytes to the statement's reader. What it accepts it
// writes again as a statement that it accepts, with the same subject and type.
func FuzzStatement(f *testing.F) {
	p := packettest.New(f, packettest.Catalogue(small()[:3]))
	f.Add(p.Statement)
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + packettest.ImageDigest[7:] + `"}}],"predicateType":"x","predicate":{"a":[1,"\u00e9"]}}`))
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","Subject":[],"subject":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := predicate.ParseStatement(data)
		if err != nil {
			return
		}
		var b predicate.Boundary
		if _, err := s.Decode(&b); err == nil {
			again, err := predicate.Marshal(s.Subject[0], s.PredicateType, b)
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			s2, unknown, err := predicate.ParseStatement(again)
			if err != nil || len(unknown) > 0 || s2.PredicateType != s.PredicateType || s2.Subject[0].Sha256() != s.Subject[0].Sha256() {
				t.Fatalf("written again it reads otherwise: %v, %v", err, unknown)
			}
		}
	})
}
