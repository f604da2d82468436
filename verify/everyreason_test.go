package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify"
)

// replaced is a change of the first place of a text.
func replaced(old, with string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, with, 1) }
}

// What a reader of the manifest refuses, signed with the trusted key over the
// files as they are: the reason is that of the line, not of the signature.
func TestManifestThatCannotBeRead(t *testing.T) {
	p := tiny(t)
	for _, c := range []struct {
		name   string
		last   bool // the change is of the last line, else of the first
		change func(string) string
		code   verify.Code
	}{
		{"another beginning", false, replaced(manifest.Genesis, "genesis:x"), verify.Code(manifest.ReasonGenesis)},
		{"a line too many counted", true, replaced(`"count":`, `"count":1`), verify.Code(manifest.ReasonTerminalCount)},
		{"a line without end", false, func(s string) string { return s + strings.Repeat(" ", manifest.MaxLineBytes) }, verify.Code(manifest.ReasonTooLarge)},
		{"a member twice", false, replaced(`{`, `{"seq":0,`), verify.Code(canon.ReasonDuplicate)},
		{"a byte that is no character", false, replaced(`"run"`, "\"r\xffn\""), verify.Code(canon.ReasonUTF8)},
		{"half a surrogate pair", false, replaced(`"run"`, `"\ud800"`), verify.Code(canon.ReasonSurrogate)},
		{"a fraction", false, replaced(`"seq":0`, `"seq":0.0`), verify.Code(canon.ReasonNotInteger)},
		{"a number beyond 2^53", false, replaced(`"seq":0`, `"seq":9007199254740993`), verify.Code(canon.ReasonNumberRange)},
		{"nested without end", false, replaced(`"seq":0`, `"seq":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)), verify.Code(canon.ReasonDepth)},
		{"members without end", false, replaced(`"seq":0`, `"seq":[`+strings.Repeat("0,", canon.DefaultMembers)+`0]`), verify.Code(canon.ReasonSize)},
		{"a member's name in capitals besides", false, replaced(`{`, `{"SEQ":0,`), verify.Code(canon.ReasonCaseFolded)},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := manifestLines(p)
			n := 0
			if c.last {
				n = len(lines) - 1
			}
			before := string(lines[n])
			lines[n] = []byte(c.change(before))
			if string(lines[n]) == before {
				t.Fatal("nothing was changed")
			}
			q := p.Clone()
			q.Files[packet.ManifestFile] = append(bytes.Join(lines, []byte("\n")), '\n')
			wantCode(t, verify.Verify(*forge(t, p, q.Files)), verify.Invalid, c.code)
		})
	}
}

// A key for the nonces that is too short to be one.
func TestNonceKeyTooShort(t *testing.T) {
	p := tiny(t)
	lines := manifestLines(p)
	var end manifest.Terminal
	if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "00", end.NonceKey[:30], end.NonceKey[1:], "z" + end.NonceKey[1:]} {
		changed := append([][]byte(nil), lines...)
		changed[len(lines)-1] = bytes.Replace(lines[len(lines)-1], []byte(end.NonceKey), []byte(key), 1)
		q := p.Clone()
		q.Files[packet.ManifestFile] = rebuild(changed)
		wantCode(t, verify.Verify(*forge(t, p, q.Files)), verify.Invalid, verify.CodeNonceKey)
	}
}

// A bundle that signs a message and no statement, as `cosign sign-blob` makes it.
func TestBundleOfABareMessage(t *testing.T) {
	p := smallPacket(t)
	var b map[string]any
	if err := json.Unmarshal(p.Files[packet.AttestationFile], &b); err != nil {
		t.Fatal(err)
	}
	delete(b, "dsseEnvelope")
	b["messageSignature"] = map[string]any{"messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": make([]byte, 32)}, "signature": []byte("signature")}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	in := p.Input()
	in.Bundle = data
	wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeBundleContent)
}

func TestKeyWhereAnIdentityIsAskedFor(t *testing.T) {
	in := smallPacket(t).Input()
	in.Trust = verify.Trust{Identity: &verify.Identity{SAN: "a@example.org", Issuer: "https://issuer.example.org"}}
	wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeSignerNotIdentity)
}

// endless is a packet whose manifest has no end.
type endless struct{ packet.Memory }

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.Memory.Open(name)
	if err == nil && name == packet.ManifestFile {
		return huge{f}, nil
	}
	return f, err
}

type huge struct{ fs.File }

func (huge) Read(p []byte) (int, error) { return len(p), nil }

func TestPacketBeyondTheLimits(t *testing.T) {
	p := smallPacket(t)
	in := p.Input()
	many := maps.Clone(p.Files)
	for i := range packet.MaxFiles + 1 {
		many[fmt.Sprintf("logs/%05d.jsonl", i)] = nil
	}
	in.Packet = many
	wantCode(t, verify.Verify(in), verify.Invalid, verify.Code(packet.ReasonLimit))
	in.Packet = endless{p.Files}
	wantCode(t, verify.Verify(in), verify.Invalid, verify.Code(packet.ReasonLimit))
}

// A document of the packet in a schema that this version does not read: the
// report says so within its own reason.
func TestDocumentOfAnotherSchema(t *testing.T) {
	r := forged(t, proof(func(r *packet.Redaction) { r.Schema += "0" }))
	wantCode(t, r, verify.Invalid, verify.CodeRedactionForm)
	for _, c := range r.Checks {
		if c.Code == verify.CodeRedactionForm && !strings.HasPrefix(c.Message, string(packet.ReasonDocument)+": ") {
			t.Errorf("its message is %q", c.Message)
		}
	}
}

// What a scorecard lacks; the bindings themselves are tested with package attest,
// which makes them.
func TestScorecardAlone(t *testing.T) {
	p := smallPacket(t)
	card := func(produced time.Time) []byte {
		data, err := json.Marshal(map[string]any{"schema": "wallproof.scorecard/v1", "kind": "create", "id": "c-1",
			"image": packettest.ImageDigest, "policy": p.Policy, "produced": produced.UTC().Format(time.RFC3339)})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, c := range []struct {
		scorecard []byte
		code      verify.Code
	}{
		{nil, verify.CodeScorecardMissing},
		{card(packettest.Now), verify.CodeBindingMissing},
		{card(packettest.Started.Add(-time.Second)), verify.CodeScorecardTime},
	} {
		in := p.Input()
		in.Scorecard, in.Require = c.scorecard, []verify.Requirement{verify.RequireScorecard}
		wantCode(t, verify.Verify(in), verify.VerdictHeld, c.code)
	}
}
