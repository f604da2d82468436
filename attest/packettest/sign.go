package packettest

import (
	"context"
	"crypto"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
)

// sign attests the packet and adds the re-run.
func (c *config) sign(p *Packet) error {
	ctx := context.Background()
	if c.threatModel != nil {
		t, err := packet.ParseThreatModel(c.threatModel)
		if err != nil {
			return err
		}
		p.Files[t.File] = c.threatModel
	}
	redTeam, err := c.redTeamFile()
	if err != nil {
		return err
	}
	if redTeam != nil {
		p.Files[packet.RedTeamFile] = redTeam
	}
	signer, err := attest.NewKeySigner(c.key)
	if err != nil {
		return err
	}
	r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: signer, Validity: c.validity, Clock: c.clock, Catalogue: c.catalogue})
	if err != nil {
		return err
	}
	p.Statement, p.Files[packet.AttestationFile] = r.Statement, r.Bundle
	if c.statement != nil {
		p.Statement = c.statement(r.Statement)
		if p.Files[packet.AttestationFile], err = attest.SignStatement(ctx, p.Statement, signer); err != nil {
			return err
		}
	}
	if c.rerun == rerunMissing {
		return nil
	}
	key := c.key
	if c.verifier != nil {
		key = c.verifier
	}
	return c.signRerun(ctx, p, key)
}

func (c *config) clock() time.Time { return c.attested }

// signRerun adds the verifier's re-run.
func (c *config) signRerun(ctx context.Context, p *Packet, key crypto.Signer) error {
	signer, err := attest.NewKeySigner(key)
	if err != nil {
		return err
	}
	in := p.Input()
	in.WithoutRerun, in.At = true, c.attested.Add(time.Minute)
	report := verify.Verify(in)
	if c.rerun == rerunFailed {
		report.Verdict = verify.Invalid
	}
	if report.Evidence == nil {
		return nil // the statement was made unreadable on purpose
	}
	r, err := attest.SignVerification(ctx, report, signer, "0.1.0")
	if err != nil {
		return err
	}
	p.Files[packet.VerificationFile] = r.Bundle
	return nil
}
