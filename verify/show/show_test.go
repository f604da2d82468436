package show

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

func sample(t *testing.T, options ...packettest.Option) *packettest.Packet {
	t.Helper()
	return packettest.New(t, append([]packettest.Option{packettest.Catalogue(catalog.All()[:2])}, options...)...)
}

func TestShow(t *testing.T) {
	p := sample(t)
	row, err := verify.Prove(p.Files, "1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want []string
	}{
		"attestation": {p.Files[packet.AttestationFile], []string{"Sigstore bundle", "signed by", "Trust boundary", packettest.ImageDigest, "contained", "not asserted"}},
		"re-run":      {p.Files[packet.VerificationFile], []string{"verification_summary", `"verificationResult": "PASSED"`}},
		"statement":   {p.Statement, []string{"Statement", "Trust boundary"}},
		"row":         {row, []string{"Manifest row", "1 of 4", "Sigstore bundle"}},
	} {
		var b bytes.Buffer
		if err := File(&b, c.data); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range append(c.want, "NOT VERIFIED") {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, b.String())
			}
		}
	}
	for _, in := range []string{"", "{}", "[]", "null", "hello", `{"mediaType":"x"}`, `{"_type":"x"}`} {
		if err := File(&bytes.Buffer{}, []byte(in)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// What a hostile packet says reaches no terminal as it is.
func TestHostileText(t *testing.T) {
	p := sample(t, packettest.Run(func(r *manifest.Run) { r.Tool.Version, r.Driver.Version = "1\x1b[2J", "\u202egnp.exe" }))
	var b bytes.Buffer
	if err := Packet(&b, p.Files); err != nil {
		t.Fatal(err)
	}
	if err := File(&b, p.Files[packet.AttestationFile]); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\u202e") {
		t.Errorf("%q", b.String())
	}
}

func TestShowPacket(t *testing.T) {
	var b bytes.Buffer
	if err := Packet(&b, sample(t).Files); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Packet", packet.ControlFile, "Manifest", "4", "attestation.sigstore.json", "Trust boundary"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := Packet(&b, packet.Memory{}); err != nil || !strings.Contains(b.String(), "not there") {
		t.Errorf("an empty packet: %v\n%s", err, b.String())
	}
}
