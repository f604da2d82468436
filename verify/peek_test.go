package verify_test

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// Whoever may write to a registry may put re-runs and attestations of their own
// beside the good ones: whichever comes first or last, they hide nothing.
func TestPairsWithJunk(t *testing.T) {
	p := smallPacket(t)
	good, rerun := p.Files[packet.AttestationFile], p.Files[packet.VerificationFile]
	statement, err := base64.StdEncoding.DecodeString(strings.Trim(parseTree(rerun).member("dsseEnvelope").member("payload").raw, `"`))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := attest.NewKeySigner(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	forged := func(data []byte) []byte {
		t.Helper()
		b, err := attest.SignStatement(context.Background(), data, stranger)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	later := bytes.Replace(statement, []byte(`"timeVerified":"2026`), []byte(`"timeVerified":"2036`), 1)
	failed := bytes.Replace(statement, []byte(`"PASSED"`), []byte(`"FAILED"`), 1)
	junk := [][]byte{forged(statement), forged(later), forged(failed), forged(p.Statement), p.Sign(t, failed), []byte("{}"), nil, []byte("null")}
	all := append([][]byte{good, rerun}, junk...)
	in := p.Input()
	in.Packet = nil
	v := verify.NewVerifier(nil, "", in.Catalogue)
	best := func(bundles [][]byte) verify.Report {
		var reports []verify.Report
		for _, pair := range verify.Pairs(bundles) {
			reports = append(reports, pair.Verify(v, in))
		}
		n, _ := verify.Newest(reports)
		return reports[n]
	}
	for range all {
		all = append(all[1:], all[0])
		wantCode(t, best(all), verify.Valid, verify.CodeRerunSelf)
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		wantCode(t, best(reversed), verify.Valid, verify.CodeRerunSelf)
	}
	// Alone, none of them makes anything valid.
	for i, j := range junk {
		if r := best([][]byte{good, j}); r.Verdict == verify.Valid {
			t.Errorf("junk %d alone: %s", i, r.Verdict)
		}
	}
	wantCode(t, best([][]byte{good}), verify.VerdictHeld, verify.CodeRerunMissing)
	if got := best(append([][]byte{smallPacket(t, packettest.Key(p.Key), packettest.Escape(small()[0].ID)).Files[packet.AttestationFile]}, all...)); got.Verdict != verify.Valid {
		t.Errorf("an attestation that is held hides a valid one: %s", got.Verdict)
	}
}

// A verifier takes back what it confirmed: of its own re-runs the newest counts,
// whichever is listed first. One that a stranger signed takes nothing back.
func TestPairsWithFailedRerun(t *testing.T) {
	p := smallPacket(t)
	signed := p.Files[packet.AttestationFile]
	in := p.Input()
	in.Packet, in.Bundle, in.Verification = nil, signed, nil
	saying := func(at time.Time, failed bool, key crypto.Signer) []byte {
		t.Helper()
		passed := rerunSaying(t, in, at, key)
		if !failed {
			return passed
		}
		payload, err := base64.StdEncoding.DecodeString(strings.Trim(parseTree(passed).member("dsseEnvelope").member("payload").raw, `"`))
		if err != nil {
			t.Fatal(err)
		}
		payload = bytes.Replace(payload, []byte(`"PASSED"`), []byte(`"FAILED"`), 1)
		tree := parseTree(payload)
		levels := tree.member("predicate").member("verifiedLevels")
		levels.names, levels.elems = nil, nil
		signer, err := attest.NewKeySigner(key)
		if err != nil {
			t.Fatal(err)
		}
		b, err := attest.SignStatement(t.Context(), tree.bytes(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	early, late := p.Now.Add(-time.Hour), p.Now.Add(-time.Minute)
	v := verify.NewVerifier(nil, "", in.Catalogue)
	for name, c := range map[string]struct {
		reruns  [][]byte
		verdict verify.Verdict
		code    verify.Code
	}{
		"failed later":               {[][]byte{saying(early, false, p.Key), saying(late, true, p.Key)}, verify.VerdictHeld, verify.CodeRerunFailed},
		"failed at the same moment":  {[][]byte{saying(late, false, p.Key), saying(late, true, p.Key)}, verify.VerdictHeld, verify.CodeRerunFailed},
		"failed, then passed":        {[][]byte{saying(late, false, p.Key), saying(early, true, p.Key)}, verify.Valid, verify.CodeRerunSelf},
		"failed later by a stranger": {[][]byte{saying(early, false, p.Key), saying(late, true, newKey(t))}, verify.Valid, verify.CodeRerunSelf},
		"failed between two":         {[][]byte{saying(early, false, p.Key), saying(late, false, p.Key), saying(early.Add(time.Minute), true, p.Key)}, verify.Valid, verify.CodeRerunSelf},
	} {
		for range c.reruns {
			c.reruns = append(c.reruns[1:], c.reruns[0])
			r := verify.Pair{Attestation: signed, Verifications: c.reruns}.Verify(v, in)
			if r.Verdict != c.verdict || !r.Has(c.code) {
				t.Errorf("%s: %s, want %s with %s:%s", name, r.Verdict, c.verdict, c.code, explain(r))
			}
		}
	}
}
