package verify_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
	"github.com/wallproof/wallproof/verify/trustroot"
)

// The cases of public bug reports about signing and verifying, by their number.
// E5 is TestE5VerifyOpensNoSocket; E9 and E10 are with the log entries, E23 with the
// identities, E12 and E13 with the key services, E14 and E15 with the registries, E18
// with canonical JSON. E10 is tried with real servers, too.

// smallPacket is a valid packet with a small catalogue.
func smallPacket(t testing.TB, options ...packettest.Option) *packettest.Packet {
	t.Helper()
	return packettest.New(t, append([]packettest.Option{packettest.Catalogue(small())}, options...)...)
}

func wantCode(t *testing.T, r verify.Report, v verify.Verdict, code verify.Code) {
	t.Helper()
	if r.Verdict != v || !r.Has(code) {
		t.Errorf("%s, want %s with %s:%s", r.Verdict, v, code, explain(r))
	}
}

// E1: a valid signature over the wrong thing.
func TestE1ValidSignatureOverTheWrongThing(t *testing.T) {
	p := smallPacket(t)
	in := p.Input()
	in.Bundle = p.Files[packet.VerificationFile]
	r := verify.Verify(in)
	wantCode(t, r, verify.Invalid, verify.CodePredicateType)
	if f := r.Failed(); !strings.Contains(f[0].Message, "slsa.dev/verification_summary") {
		t.Errorf("the reason does not name the type found: %s", f[0].Message)
	}
	for _, payload := range []string{`{"hello":"world"}`, `[]`, `"text"`, `1`, ``, `{"_type":"https://in-toto.io/Statement/v0.1","subject":[],"predicateType":"x","predicate":{}}`} {
		in.Bundle = p.Sign(t, []byte(payload))
		if r := verify.Verify(in); r.Verdict != verify.Invalid || r.Evidence != nil {
			t.Errorf("%s: %s with evidence %v", payload, r.Verdict, r.Evidence)
		}
	}
	b := new(protobundle.Bundle)
	if err := protojson.Unmarshal(p.Files[packet.AttestationFile], b); err != nil {
		t.Fatal(err)
	}
	b.GetDsseEnvelope().PayloadType = "text/plain"
	in.Bundle = bundleJSON(t, b)
	wantCode(t, verify.Verify(in), verify.Invalid, verify.CodePayloadType)
}

// E2: nothing to check does not pass.
func TestE2NoAttestation(t *testing.T) {
	p := smallPacket(t, packettest.Unsigned())
	r := verify.Verify(p.Input())
	wantCode(t, r, verify.Invalid, verify.CodeBundleMissing)
	if r.Verdict.Exit() != verify.ExitInvalid {
		t.Errorf("exit %d", r.Verdict.Exit())
	}
	wantCode(t, verify.Verify(verify.Input{At: packettest.Now}), verify.Invalid, verify.CodeBundleMissing)
	wantCode(t, verify.Verify(verify.Input{At: packettest.Now, Packet: packet.Memory{}}), verify.Invalid, verify.CodePacketIncomplete)
}

// E3: present and failed is worse than missing, and never the same.
func TestE3PresentButFailed(t *testing.T) {
	missing := smallPacket(t, packettest.WithoutRerun())
	wantCode(t, verify.Verify(missing.Input()), verify.VerdictHeld, verify.CodeRerunMissing)
	failed := smallPacket(t, packettest.FailedRerun())
	r := verify.Verify(failed.Input())
	wantCode(t, r, verify.VerdictHeld, verify.CodeRerunFailed)
	if r.Has(verify.CodeRerunMissing) {
		t.Error("a failed re-run is called missing")
	}
	for name, data := range map[string][]byte{"empty": {}, "null": []byte("null"), "object": []byte("{}"), "forged": smallPacket(t).Files[packet.VerificationFile]} {
		p := missing.Clone()
		p.Files[packet.VerificationFile] = data
		if r := verify.Verify(p.Input()); r.Verdict != verify.Invalid || r.Has(verify.CodeRerunMissing) {
			t.Errorf("%s re-run: %s, want invalid:%s", name, r.Verdict, explain(r))
		}
	}
	p := smallPacket(t)
	p.Files[packet.RedTeamFile] = []byte("{}")
	if r := verify.Verify(p.Input()); r.Verdict != verify.Invalid || r.Has(verify.CodeRedTeamNone) {
		t.Errorf("a broken red-team result: %s:%s", r.Verdict, explain(r))
	}
}

// E4: exactly one subject.
func TestE4TwoSubjects(t *testing.T) {
	ours := `{"digest":{"sha256":"` + strings.TrimPrefix(packettest.ImageDigest, "sha256:") + `"}}`
	other := `{"digest":{"sha256":"` + strings.TrimPrefix(packettest.OtherDigest, "sha256:") + `"}}`
	for _, subjects := range []string{other + "," + ours, ours + "," + ours, "", `{"digest":{}}`, `{"digest":{"sha512":"00"}}`,
		`{"digest":{"sha256":"00","sha512":"00"}}`, `{"digest":{"sha256":"` + strings.Repeat("A", 64) + `"}}`, strings.TrimSuffix(strings.Repeat(ours+",", 1025), ",")} {
		p := smallPacket(t, packettest.Statement(func(s []byte) []byte { return replaceMember(t, s, "subject", "["+subjects+"]") }))
		in := p.Input()
		in.Image = packettest.ImageDigest
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeSubjectCount)
	}
}

// replaceMember puts JSON in place of a member of the outermost object.
func replaceMember(t testing.TB, doc []byte, name, value string) []byte {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatal(err)
	}
	m[name] = json.RawMessage(value)
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// E6: trusted material that was changed on disk.
func TestE6TrustedRootChanged(t *testing.T) {
	data, err := trustroot.PublicGood()
	if err != nil {
		t.Fatal(err)
	}
	p := smallPacket(t)
	for i := 0; i < len(data); i += 97 {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if err := trustroot.Check(changed, trustroot.PublicGoodDigest); !errors.Is(err, trustroot.ErrDigest) {
			t.Fatalf("byte %d: %v", i, err)
		}
		in := p.Input()
		in.TrustedRoot, in.TrustedRootDigest = changed, trustroot.PublicGoodDigest
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeTrustedRoot)
	}
	in := p.Input()
	in.TrustedRoot, in.TrustedRootDigest = data, trustroot.PublicGoodDigest
	wantCode(t, verify.Verify(in), verify.Valid, verify.CodeSignerKey)
	for _, broken := range []string{"", "null", "{}", "[]", `{"mediaType":"x"}`, string(data[:len(data)/2])} {
		in.TrustedRoot, in.TrustedRootDigest = []byte(broken), ""
		wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeTrustedRoot)
	}
}

// E7: what a bundle parser is handed in practice.
func TestE7BundleParser(t *testing.T) {
	p := smallPacket(t)
	good := string(p.Files[packet.AttestationFile])
	compact := strings.TrimSpace(good)
	for _, c := range []struct {
		name, in string
		want     verify.Code
	}{
		{"as it is", good, ""},
		{"no line feed", compact, ""},
		{"more line feeds", compact + "\n\n", ""},
		{"indented", indent(t, compact), ""},
		{"empty", "", verify.CodeBundleMalformed},
		{"white space", " \n", verify.CodeBundleMalformed},
		{"empty object", "{}", verify.CodeBundleVersion},
		{"null", "null", verify.CodeBundleMalformed},
		{"an array", "[]", verify.CodeBundleMalformed},
		{"bundle null", `{"bundle": null}`, verify.CodeBundleMalformed},
		{"two bundles", compact + compact, verify.CodeBundleMalformed},
		{"unknown member", strings.Replace(compact, `{`, `{"x":1,`, 1), verify.CodeBundleMalformed},
		{"member twice", strings.Replace(compact, `{`, `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",`, 1), verify.CodeBundleMalformed},
		{"v0.1", strings.Replace(compact, "bundle.v0.3+json", "bundle+json;version=0.1", 1), verify.CodeBundleVersion},
		{"v0.2", strings.Replace(compact, "bundle.v0.3+json", "bundle+json;version=0.2", 1), verify.CodeBundleVersion},
		{"v0.4", strings.Replace(compact, "bundle.v0.3", "bundle.v0.4", 1), verify.CodeBundleVersion},
		{"another type", strings.Replace(compact, "sigstore.bundle", "sigstore.bungle", 1), verify.CodeBundleVersion},
		{"byte order mark", "\uFEFF" + compact, verify.CodeBundleMalformed},
		{"cut", compact[:len(compact)/2], verify.CodeBundleMalformed},
		{"depth", strings.Repeat("[", 10000), verify.CodeBundleMalformed},
	} {
		in := p.Input()
		in.Bundle = []byte(c.in)
		r := verify.Verify(in)
		if c.want == "" {
			if r.Verdict != verify.Valid {
				t.Errorf("%s: %s:%s", c.name, r.Verdict, explain(r))
			}
			continue
		}
		if r.Verdict != verify.Invalid || !r.Has(c.want) {
			t.Errorf("%s: %s, want %s:%s", c.name, r.Verdict, c.want, explain(r))
		}
		everyCheckOnce(t, r)
	}
	v01 := newKeyless(t)
	r := v01.verify(t, func(b *protobundle.Bundle, _ *verify.Input) {
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.1"
		b.VerificationMaterial.TlogEntries[0].InclusionProof.Checkpoint = nil
	})
	wantCode(t, r, verify.Invalid, verify.CodeBundleMalformed)
	// An empty packet file is a broken bundle, not a missing one.
	p.Files[packet.AttestationFile] = []byte{}
	wantCode(t, verify.Verify(p.Input()), verify.Invalid, verify.CodeBundleMalformed)
}

func indent(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(s), "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// E8: limits.
func TestE8Limits(t *testing.T) {
	p := smallPacket(t)
	in := p.Input()
	in.Bundle = bytes.Repeat([]byte("a"), 200<<20)
	wantCode(t, verify.Verify(in), verify.Invalid, verify.CodeBundleTooLarge)
	in.Bundle = nil
	deep := p.Clone()
	deep.Files[packet.AttestationFile] = p.Sign(t, []byte(strings.Repeat(`{"a":`, 10000)+"1"+strings.Repeat("}", 10000)))
	wantCode(t, verify.Verify(deep.Input()), verify.Invalid, verify.CodeStatementMalformed)
}

// E11: algorithms, signed and then verified, or refused at signing.
func TestE11Algorithms(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"ecdsa-sha2-384-nistp384": p384, "ed25519": ed, "rsa-sign-pkcs1-2048-sha256": rsaKey} {
		p := smallPacket(t, packettest.Key(key))
		r := verify.Verify(p.Input())
		if r.Verdict != verify.Valid || r.Signer.Algorithm != name {
			t.Errorf("%s: %s, signer %+v:%s", name, r.Verdict, r.Signer, explain(r))
		}
		broken := p.Clone()
		broken.Files[packet.AttestationFile] = bytes.Replace(broken.Files[packet.AttestationFile], []byte(`"payload":"eyJ`), []byte(`"payload":"eyA`), 1)
		wantCode(t, verify.Verify(broken.Input()), verify.Invalid, verify.CodeSignatureInvalid)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(p224)
	if err != nil {
		t.Fatal(err)
	}
	_, err = keyfile.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if !errors.Is(err, keyfile.ErrForm) || !strings.Contains(fmt.Sprint(err), "use ECDSA P-256 or P-384") {
		t.Errorf("P-224: %v", err)
	}
	if _, err := attest.NewKeySigner(p224); !errors.Is(err, keyfile.ErrForm) {
		t.Errorf("P-224: %v", err)
	}
}

// E16: digests of different things are never equal by accident.
func TestE16IndexAndPlatform(t *testing.T) {
	p := smallPacket(t)
	in := p.Input()
	for asked, want := range map[string]verify.Code{
		packettest.ImageDigest:                                verify.CodeSubjectOK,
		packettest.IndexDigest:                                verify.CodeSubjectIsIndex,
		packettest.OtherDigest:                                verify.CodeSubjectMismatch,
		strings.TrimPrefix(packettest.ImageDigest, "sha256:"): verify.CodeSubjectMalformed,
		strings.ToUpper(packettest.ImageDigest):               verify.CodeSubjectMalformed,
		packettest.ImageDigest + " ":                          verify.CodeSubjectMalformed,
	} {
		in.Image = asked
		r := verify.Verify(in)
		if !r.Has(want) || (r.Verdict == verify.Valid) != (want == verify.CodeSubjectOK) {
			t.Errorf("%q: %s, want %s:%s", asked, r.Verdict, want, explain(r))
		}
	}
}

// E17: ambiguous JSON inside signed bytes.
func TestE17AmbiguousStatement(t *testing.T) {
	for _, edit := range [][2]string{
		{`"runId":"`, `"RunId":"x","runId":"`},
		{`"runId":"`, `"runId":"x","runId":"`},
		{`"runId":"`, `"run\u0049d":"x","runId":"`},
		{`"head":"`, `"head":"x","head":"`},
		{`{"_type"`, `{"Predicate":{},"_type"`},
		{`"kernel":"own"`, `"kernel":"own","kernel":"shared"`},
		{`"criticalEscapes":0`, `"criticalEscapes":0.0`},
		{`"criticalEscapes":0`, `"criticalEscapes":9007199254740993`},
		{`"runId":"`, "\"runId\":\"\xff"},
		{`"runId":"`, `"runId":"\ud800`},
		{`"image":{`, `"image":null,"x":{`},
	} {
		p := smallPacket(t, packettest.Statement(func(s []byte) []byte {
			out := bytes.Replace(s, []byte(edit[0]), []byte(edit[1]), 1)
			if bytes.Equal(out, s) {
				t.Fatalf("%s is not in the statement", edit[0])
			}
			return out
		}))
		r := verify.Verify(p.Input())
		if r.Verdict != verify.Invalid || !(r.Has(verify.CodeStatementMalformed) || r.Has(verify.CodePredicateMalformed)) || r.Evidence != nil {
			t.Errorf("%s: %s:%s", edit[1], r.Verdict, explain(r))
		}
	}
}

// E19: a member that this version does not know, validly signed.
func TestE19UnknownMember(t *testing.T) {
	p := smallPacket(t, packettest.Statement(func(s []byte) []byte {
		return bytes.Replace(s, []byte(`"runId":"`), []byte(`"newThing":{"a":[1,2]}, "runId":"`), 1)
	}))
	r := verify.Verify(p.Input())
	wantCode(t, r, verify.Valid, verify.CodeStatementUnknown)
	if len(r.Evidence.Unknown) != 1 || r.Evidence.Unknown[0] != "predicate.newThing" {
		t.Errorf("unknown = %q", r.Evidence.Unknown)
	}
}
