//go:build stack

package stacktest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

const who = "ci@example.org"

func few() []catalog.Technique {
	var out []catalog.Technique
	for _, c := range catalog.All() {
		if len(out) == 0 || out[len(out)-1].Vector != c.Vector {
			c.Variants = c.Variants[:1]
			out = append(out, c)
		}
	}
	return out
}

// unsigned is a packet of a run that just ended.
func unsigned(t *testing.T) *packettest.Packet {
	t.Helper()
	return packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()), packettest.StartedAt(time.Now().Add(-time.Minute)), packettest.WithoutRedTeam())
}

func keylessSigner(t *testing.T, token string) attest.Signer {
	t.Helper()
	s, err := attest.NewKeylessSigner(token)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Stack) input(p *packettest.Packet, trust verify.Trust) verify.Input {
	return verify.Input{Packet: p.Files, Trust: trust, TrustedRoot: s.Root, At: time.Now().Add(time.Second), Catalogue: few()}
}

func (s *Stack) identity() verify.Trust {
	return verify.Trust{Identity: &verify.Identity{SAN: who, Issuer: s.URL}}
}

// sign attests a packet in memory and adds its re-run.
func (s *Stack) sign(t *testing.T, p *packettest.Packet, signer func() attest.Signer, trust verify.Trust) verify.Report {
	t.Helper()
	ctx := context.Background()
	r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: signer(), Services: s.Services, Catalogue: few()})
	if err != nil {
		t.Fatal(err)
	}
	p.Files[packet.AttestationFile] = r.Bundle
	in := s.input(p, trust)
	in.WithoutRerun = true
	vsa, err := attest.SignVerificationWith(ctx, verify.Verify(in), signer(), s.Services, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	p.Files[packet.VerificationFile] = vsa.Bundle
	return verify.Verify(s.input(p, trust))
}

func want(t *testing.T, r verify.Report, v verify.Verdict, codes ...verify.Code) {
	t.Helper()
	if r.Verdict != v {
		t.Errorf("%s, want %s: %v", r.Verdict, v, r.Failed())
	}
	for _, c := range codes {
		if !r.Has(c) {
			t.Errorf("no line with %s: %v", c, r.Checks)
		}
	}
}

// A keyless signature: certificate, certificate log, log entry, timestamp; and
// what must be refused of it.
func testKeyless(t *testing.T) {
	s := sharedStack(t)
	p := unsigned(t)
	fresh := func() attest.Signer { return keylessSigner(t, s.Token(t, who, nil)) }
	want(t, s.sign(t, p, fresh, s.identity()), verify.Valid, verify.CodeSignerIdentity, verify.CodeTimeTimestamp, verify.CodeTransparencyOK, verify.CodeRerunSelf)

	for name, c := range map[string]struct {
		change func(*verify.Input)
		code   verify.Code
	}{
		"another identity": {func(in *verify.Input) { in.Trust.Identity.SAN = "other@example.org" }, verify.CodeIdentityMismatch},
		"another issuer":   {func(in *verify.Input) { in.Trust.Identity.Issuer = "https://accounts.example.org" }, verify.CodeIdentityMismatch},
		"embedded root":    {func(in *verify.Input) { in.TrustedRoot = nil }, verify.CodeTransparencyBad},
	} {
		in := s.input(p, s.identity())
		c.change(&in)
		t.Run(name, func(t *testing.T) { want(t, verify.Verify(in), verify.Invalid, c.code) })
	}
	// The certificate expired long ago: the trusted time of signing counts.
	in := s.input(p, s.identity())
	in.At = time.Now().Add(30 * 24 * time.Hour)
	want(t, verify.Verify(in), verify.Valid)
	in.At = time.Now().Add(61 * 24 * time.Hour)
	want(t, verify.Verify(in), verify.VerdictHeld, verify.CodeExpired)
}

// A key signature that is timestamped and logged too.
func testKey(t *testing.T) {
	s := sharedStack(t)
	p := unsigned(t)
	signer := func() attest.Signer {
		k, err := attest.NewKeySigner(p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	trust := verify.Trust{Key: p.Key.Public()}
	want(t, s.sign(t, p, signer, trust), verify.Valid, verify.CodeSignerKey, verify.CodeTimeTimestamp, verify.CodeTransparencyOK)
	in := s.input(p, trust)
	in.Require = []verify.Requirement{verify.RequireTimestamp, verify.RequireLog}
	want(t, verify.Verify(in), verify.Valid)
}

// Tokens that the certificate authority refuses leave the packet as it was.
func testRefusedToken(t *testing.T) {
	s := sharedStack(t)
	stranger := NewIssuer(t)
	for name, token := range map[string]string{
		"another audience": s.Token(t, who, func(c map[string]any) { c["aud"] = "other" }),
		"expired":          s.Token(t, who, func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }),
		"mail unverified":  s.Token(t, who, func(c map[string]any) { c["email_verified"] = false }),
		"another issuer":   stranger.Token(t, who, nil),
		"signature":        s.Token(t, who, nil) + "A",
	} {
		t.Run(name, func(t *testing.T) { s.refuses(t, keylessSigner(t, token)) })
	}
}

// refuses demands that attesting a directory fails and changes nothing.
func (s *Stack) refuses(t *testing.T, signer attest.Signer) {
	t.Helper()
	p := unsigned(t)
	dir := p.WriteDir(t, t.TempDir())
	before := tree(t, dir)
	_, err := attest.Attest(context.Background(), dir, attest.Options{Signer: signer, Services: s.Services, Catalogue: few(), ThreatModel: []byte(packettest.ThreatModel)})
	if !errors.Is(err, attest.ErrService) {
		t.Errorf("got %v, want %v", err, attest.ErrService)
	}
	if !maps.Equal(before, tree(t, dir)) {
		t.Error("the packet was changed")
	}
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// E10: the log's entry is over the envelope's pre-authentication encoding. One
// of another statement by the same signer does not do.
func testE10LogEntryIsOverTheEnvelope(t *testing.T) {
	s := sharedStack(t)
	p := unsigned(t)
	k, err := attest.NewKeySigner(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: k, Services: s.Services, Catalogue: few()})
	if err != nil {
		t.Fatal(err)
	}
	other, err := attest.SignStatementWith(ctx, append([]byte(" "), r.Statement...), k, s.Services)
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := exchangeEntries(r.Bundle, other)
	if err != nil {
		t.Fatal(err)
	}
	in := s.input(p, verify.Trust{Key: p.Key.Public()})
	in.Bundle, in.WithoutRerun = mixed, true
	want(t, verify.Verify(in), verify.Invalid, verify.CodeTransparencyBad)
	in.Bundle = r.Bundle
	want(t, verify.Verify(in), verify.Valid, verify.CodeTransparencyOK)
}

// testOutage takes the timestamp authority away, then the log.
func testOutage(t *testing.T) {
	s := sharedStack(t)
	c := newCLI(t)
	c.file("root.json", string(s.Root))
	c.file("signing.json", string(s.SigningConfig()))
	c.file("token", s.Token(t, who, nil))
	c.exits(0, words("attest --generate-key k"))
	c.wholePacket("packet")
	s.tsa.stop()
	t.Run("timestamp authority", func(t *testing.T) { s.refuses(t, keylessSigner(t, s.Token(t, who, nil))) })
	t.Run("timestamp authority, by the command line", func(t *testing.T) { c.refuses(t, "--keyless --identity-token token") })
	s.rekor.stop()
	t.Run("log, by the command line", func(t *testing.T) { c.refuses(t, "--key k.key") })
	p := unsigned(t)
	k, err := attest.NewKeySigner(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	only := *s
	only.Services.Timestamps = nil
	t.Run("log", func(t *testing.T) { only.refuses(t, k) })
}

// shared is one deployment for all tests that do not break it.
func sharedStack(t *testing.T) *Stack {
	t.Helper()
	if shared == nil {
		t.Fatal("the deployment was not started")
	}
	return shared
}

var shared *Stack

// TestStack starts the deployment once and runs every test against it.
func TestStack(t *testing.T) {
	shared = New(t)
	for name, test := range map[string]func(*testing.T){
		"keyless": testKeyless, "key": testKey, "refused": testRefusedToken, "E10 payload": testE10LogEntryIsOverTheEnvelope, "cosign": testCosign, "cli": testCLI, "admission": testAdmission,
	} {
		t.Run(name, test)
	}
	// Last, because it takes servers away.
	t.Run("outage", testOutage)
}
