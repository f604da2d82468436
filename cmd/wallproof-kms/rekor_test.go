//go:build stack

package main

import (
	"context"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/stacktest"
	"github.com/wallproof/wallproof/verify"
)

// D5: a signature by a key of Google's service, timestamped and logged by real
// servers, is verified with both; after a rotation too.
func TestGCPWithRekor(t *testing.T) {
	keys := start(t)
	deployment := stacktest.New(t)
	k, err := openKey(t, "gcpkms://"+testKey)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()), packettest.StartedAt(time.Now().Add(-time.Minute)), packettest.WithoutRedTeam())
	r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: k, Services: deployment.Services, Catalogue: few()})
	if err != nil {
		t.Fatal(err)
	}
	keys.rotate(t)
	keys.set(func(s *service) { s.disabled[1] = true })
	p.Files[packet.AttestationFile] = r.Bundle
	in := verify.Input{Packet: p.Files, Trust: verify.Trust{Key: k.GetPublicKey()}, TrustedRoot: deployment.Root, At: time.Now().Add(time.Second), Catalogue: few(),
		WithoutRerun: true, Require: []verify.Requirement{verify.RequireLog, verify.RequireTimestamp}}
	report := verify.Verify(in)
	if report.Verdict != verify.Valid || !report.Has(verify.CodeTransparencyOK) || !report.Has(verify.CodeTimeTimestamp) || report.Signer.Key != k.KeyName() {
		t.Errorf("%s, key %s: %v", report.Verdict, report.Signer.Key, report.Failed())
	}
	record, err := attest.ReadRecord(r.Bundle)
	if err != nil || len(record.Logs) != 1 || len(record.Timestamps) != 1 {
		t.Errorf("%+v, %v", record, err)
	}
}
