package verify_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

func TestRowProof(t *testing.T) {
	p := smallPacket(t)
	first := small()[0]
	in := p.Input()
	in.Packet, in.Verification = nil, p.Files[packet.VerificationFile]
	for _, row := range []string{"0", first.ID + "/" + first.Variants[0], "19"} {
		data, err := verify.Prove(p.Files, row)
		if err != nil {
			t.Fatal(err)
		}
		r := verify.VerifyRow(data, in)
		if r.Verdict != verify.Valid || !r.Has(verify.CodeManifestRowOK) {
			t.Errorf("%s: %s:%s", row, r.Verdict, explain(r))
		}
		everyCheckOnce(t, r)
		if e, ok := r.Evidence.Row.(*manifest.Technique); strings.Contains(row, "/") && (!ok || e.Technique != first.ID) {
			t.Errorf("%s: the row is %+v", row, r.Evidence.Row)
		}
	}
	for _, row := range []string{"", "x/y", "-1", "100000", first.ID} {
		if _, err := verify.Prove(p.Files, row); !errors.Is(err, verify.ErrNoRow) {
			t.Errorf("row %q: %v", row, err)
		}
	}
	if _, err := verify.Prove(packet.Memory{}, "0"); err == nil {
		t.Error("a row of nothing")
	}
}

// Every member of a row proof but the bundle, which has its own matrix.
func TestTamperRow(t *testing.T) {
	p := smallPacket(t)
	data, err := verify.Prove(p.Files, "1")
	if err != nil {
		t.Fatal(err)
	}
	in := p.Input()
	in.Packet, in.Verification = nil, p.Files[packet.VerificationFile]
	y := newTally(t)
	for _, m := range mutations(data) {
		if strings.HasPrefix(m.path, "attestation.") || (strings.HasPrefix(m.path, "attestation") && m.op == "truncate") {
			continue
		}
		y.judge(m.op+" "+m.path, verify.VerifyRow(m.data, in), verify.CodeManifestRow, verify.CodeBundleMalformed)
	}
	other := smallPacket(t)
	row, err := predicate.ParseRow(data)
	if err != nil {
		t.Fatal(err)
	}
	row.Attestation = other.Files[packet.AttestationFile]
	changed, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	y.judge("swap attestation", verify.VerifyRow(changed, in), verify.CodeSignatureInvalid)
	otherIn := in
	otherIn.Trust.Key = other.Key.Public()
	y.judge("swap attestation for one of a trusted key", verify.VerifyRow(changed, otherIn), verify.CodeManifestRow, verify.CodeRerunInvalid)
	for _, s := range []string{"", "{}", "null", "[]"} {
		y.judge("replace by "+s, verify.VerifyRow([]byte(s), in), verify.CodeBundleMalformed)
	}
	y.done(20)
}
