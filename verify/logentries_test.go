package verify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"strconv"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
)

// A good log entry does not make a bad one beside it harmless, in whatever order they
// stand: a report names an index, and it would be the bad one's.
func TestSeveralLogEntries(t *testing.T) {
	k := newKeyless(t)
	entries := func(b *protobundle.Bundle) *[]*protorekor.TransparencyLogEntry {
		return &b.VerificationMaterial.TlogEntries
	}
	for name, spoil := range map[string]func(e *protorekor.TransparencyLogEntry){
		"of an unknown log":          func(e *protorekor.TransparencyLogEntry) { e.LogId.KeyId = make([]byte, sha256.Size) },
		"promised by nobody":         func(e *protorekor.TransparencyLogEntry) { e.InclusionPromise.SignedEntryTimestamp[9] ^= 1 },
		"promised for another index": func(*protorekor.TransparencyLogEntry) {},
	} {
		for _, first := range []bool{true, false} {
			r := k.verify(t, func(b *protobundle.Bundle, _ *verify.Input) {
				good := (*entries(b))[0]
				bad := proto.CloneOf(good)
				bad.LogIndex = good.LogIndex + 1e6
				spoil(bad)
				if *entries(b) = []*protorekor.TransparencyLogEntry{good, bad}; first {
					*entries(b) = []*protorekor.TransparencyLogEntry{bad, good}
				}
			})
			if r.Verdict != verify.Invalid || !r.Has(verify.CodeTransparencyBad) {
				t.Errorf("%s, first %t: %s:%s", name, first, r.Verdict, explain(r))
			}
		}
	}
}

// Two logs that both have a signature are both believed.
func TestTwoLogs(t *testing.T) {
	p := smallPacket(t)
	var b protobundle.Bundle
	if err := protojson.Unmarshal(p.Files[packet.AttestationFile], &b); err != nil {
		t.Fatal(err)
	}
	e := b.GetDsseEnvelope()
	sum := sha256.Sum256(dsse.PAE(e.PayloadType, e.Payload))
	for _, strange := range []bool{false, true} {
		var roots [2][]byte
		b.VerificationMaterial.TlogEntries = nil
		for i := range roots {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			l := ownLog{key}
			roots[i] = l.trustedRoot(t)
			b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, l.log(t, p.Key.Public(), e.Signatures[0].Sig, protocommon.HashAlgorithm_SHA2_256, sum[:]))
		}
		in := p.Input()
		in.Bundle, in.TrustedRoot, in.WithoutRerun = bundleJSON(t, &b), roots[1], true
		if strange {
			wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeTransparencyBad)
			continue
		}
		in.TrustedRoot = bothLogs(t, roots)
		r := verify.Verify(in)
		wantCode(t, r, verify.Valid, verify.CodeTransparencyOK)
		if r.Signer.LogIndex != "0" {
			t.Errorf("log index %q", r.Signer.LogIndex)
		}
	}
}

// bothLogs is a trusted root with the logs of two.
func bothLogs(t *testing.T, roots [2][]byte) []byte {
	t.Helper()
	a, b := parseTree(roots[0]), parseTree(roots[1])
	logs := a.member("tlogs")
	logs.elems = append(logs.elems, b.member("tlogs").elems...)
	return a.bytes()
}

// The index that a report names is one that the log vouches for: without its promise
// nobody does for the entry's own, only for the one in the proof's tree.
func TestLogIndexIsVouchedFor(t *testing.T) {
	k := newKeyless(t)
	var proven int64
	r := k.verify(t, func(b *protobundle.Bundle, _ *verify.Input) {
		e := b.VerificationMaterial.TlogEntries[0]
		proven = e.GetInclusionProof().GetLogIndex()
		e.InclusionPromise, e.LogIndex = nil, 424242
	})
	if !r.Has(verify.CodeTransparencyOK) || r.Signer == nil || r.Signer.LogIndex != strconv.FormatInt(proven, 10) {
		t.Errorf("%s, signer %+v, proven is index %d:%s", r.Verdict, r.Signer, proven, explain(r))
	}
}
