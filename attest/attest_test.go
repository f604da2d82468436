package attest_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// few is a catalogue of the first technique of each vector.
func few() []catalog.Technique {
	var out []catalog.Technique
	for _, v := range catalog.Vectors() {
		for _, t := range catalog.All() {
			if t.Vector == v {
				t.Variants = t.Variants[:1]
				out = append(out, t)
				break
			}
		}
	}
	return out
}

func signer(t testing.TB, key crypto.Signer) attest.Signer {
	t.Helper()
	s, err := attest.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree is the content of a directory.
func tree(t testing.TB, dir string) map[string]string {
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

func TestKeyFiles(t *testing.T) {
	private, public, err := keyfile.GenerateKeyPair([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(private), "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----") || !strings.HasPrefix(string(public), "-----BEGIN PUBLIC KEY-----") {
		t.Errorf("key files begin with %.40q and %.40q", private, public)
	}
	want, err := keyfile.ParsePublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	box, err := encrypted.EncryptWithCustomKDFParameters([]byte("not a key"), nil, encrypted.Legacy)
	if err != nil {
		t.Fatal(err)
	}
	emptyPassword, _, err := keyfile.EncryptKey(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := func(typ string, data []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: data})
	}
	for _, c := range []struct {
		name     string
		data     []byte
		password []byte
		public   crypto.PublicKey
		err      error
	}{
		{"generated", private, []byte("secret"), want, nil},
		{"cosign's older type", file("ENCRYPTED COSIGN PRIVATE KEY", block.Bytes), []byte("secret"), want, nil},
		{"PKCS #8", file("PRIVATE KEY", pkcs8), nil, key.Public(), nil},
		{"SEC 1", file("EC PRIVATE KEY", sec1), nil, key.Public(), nil},
		{"made without password", emptyPassword, nil, key.Public(), nil},
		{"wrong password", private, []byte("guess"), nil, keyfile.ErrPassword},
		{"no password", private, nil, nil, keyfile.ErrNoPassword},
		{"damaged", file("ENCRYPTED SIGSTORE PRIVATE KEY", block.Bytes[:40]), []byte("secret"), nil, keyfile.ErrPassword},
		{"something else in the box", file("ENCRYPTED SIGSTORE PRIVATE KEY", box), []byte{}, nil, keyfile.ErrForm},
		{"public key", public, nil, nil, keyfile.ErrForm},
		{"no PEM", []byte("hello"), nil, nil, keyfile.ErrForm},
		{"empty", nil, nil, nil, keyfile.ErrForm},
		{"two keys", append(slices.Clone(private), private...), []byte("secret"), nil, keyfile.ErrForm},
		{"too long", bytes.Repeat([]byte("a"), keyfile.MaxBytes+1), nil, nil, keyfile.ErrForm},
	} {
		got, err := keyfile.ParsePrivateKey(c.data, c.password)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
			continue
		}
		if err == nil && !got.Public().(*ecdsa.PublicKey).Equal(c.public) {
			t.Errorf("%s: another key", c.name)
		}
	}
	for _, data := range [][]byte{private, nil, []byte("x"), append(slices.Clone(public), public...)} {
		if _, err := keyfile.ParsePublicKey(data); !errors.Is(err, keyfile.ErrForm) {
			t.Errorf("public key %.20q: %v", data, err)
		}
	}
}

func TestPasswordFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want []byte
	}{
		{nil, nil},
		{map[string]string{"WALLPROOF_KEY_PASSWORD": "a", "COSIGN_PASSWORD": "b"}, []byte("a")},
		{map[string]string{"COSIGN_PASSWORD": "b"}, []byte("b")},
		{map[string]string{"WALLPROOF_KEY_PASSWORD": ""}, []byte{}},
	} {
		got := keyfile.Password(func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if !bytes.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
}

func TestAttestDirectory(t *testing.T) {
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	dir := p.WriteDir(t, t.TempDir())
	o := attest.Options{
		Signer: signer(t, p.Key), ThreatModel: []byte(packettest.ThreatModel), Catalogue: few(),
		Clock: func() time.Time { return packettest.Now },
	}
	r, err := attest.Attest(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	files := packet.Memory{}
	for path, data := range tree(t, dir) {
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.ToSlash(rel)] = []byte(data)
	}
	in := p.Input()
	in.Packet = files
	report := verify.Verify(in)
	if report.Verdict != verify.VerdictHeld || !report.Has(verify.CodeRerunMissing) || len(report.Failed()) != 1 {
		t.Errorf("%s: %v", report.Verdict, report.Failed())
	}
	if report.Attestation != r.Digest || r.Path != filepath.Join(dir, packet.AttestationFile) || !bytes.Equal(files[packet.AttestationFile], r.Bundle) {
		t.Error("the result is not what was written")
	}
	if r.Boundary.Expires != manifest.FormatTime(mustTime(t, r.Boundary.Collected).Add(attest.DefaultValidity)) {
		t.Errorf("collected %s, expires %s", r.Boundary.Collected, r.Boundary.Expires)
	}

	// A second attestation is refused unless asked for, and takes the re-run of
	// the first away.
	before := tree(t, dir)
	if _, err := attest.Attest(context.Background(), dir, o); !errors.Is(err, attest.ErrAttested) {
		t.Errorf("attested twice: %v", err)
	}
	if !maps.Equal(before, tree(t, dir)) {
		t.Error("a refused attestation changed the packet")
	}
	in.WithoutRerun = true
	vsa, err := attest.SignVerification(context.Background(), verify.Verify(in), o.Signer, "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attest.WriteVerification(dir, vsa); err != nil {
		t.Fatal(err)
	}
	o.Replace = true
	if _, err := attest.Attest(context.Background(), dir, o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, packet.VerificationFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the re-run of the attestation before is still there: %v", err)
	}
}

func mustTime(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := manifest.ParseTime(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// What does not verify is not signed, and nothing is written.
func TestAttestRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []packettest.Option
		change  func(*attest.Options)
		want    error
		message string
	}{
		{name: "packet without its end", options: []packettest.Option{packettest.Files(func(m packet.Memory) {
			m[packet.ManifestFile] = m[packet.ManifestFile][:len(m[packet.ManifestFile])/2]
		})}, want: attest.ErrPacketInvalid, message: "manifest-cut-line"},
		{name: "file that has no place", options: []packettest.Option{packettest.Files(func(m packet.Memory) { m["notes.txt"] = []byte("x") })}, want: attest.ErrPacketInvalid, message: "packet-file-name"},
		{name: "missing file", options: []packettest.Option{packettest.Files(func(m packet.Memory) { delete(m, packet.PolicyFile) })}, want: attest.ErrPacketInvalid, message: "packet-missing-file"},
		{name: "another policy", options: []packettest.Option{packettest.Files(func(m packet.Memory) { m[packet.PolicyFile] = []byte(`{"mode":"public"}`) })}, want: attest.ErrPacketInvalid},
		{name: "outcome that does not follow", options: []packettest.Option{packettest.Entries(func(l []manifest.Technique) { l[0].Outcome = "not-applicable" })}, want: attest.ErrPacketInvalid, message: "outcome-differs"},
		{name: "no signer", change: func(o *attest.Options) { o.Signer = nil }, want: attest.ErrNoSigner},
		{name: "broken threat model", change: func(o *attest.Options) { o.ThreatModel = []byte("# no front matter") }, want: packet.ErrThreatModel},
		{name: "broken red-team result", change: func(o *attest.Options) { o.RedTeam = []byte("{}") }, want: packet.ErrRedTeam},
		{name: "clock behind", change: func(o *attest.Options) { o.Clock = func() time.Time { return packettest.Started.Add(-time.Hour) } }, message: "set the clock"},
		{name: "too late", change: func(o *attest.Options) {
			o.Clock = func() time.Time { return packettest.Started.Add(61 * 24 * time.Hour) }
		}, message: "run the battery again"},
		{name: "cancelled", change: nil, want: context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := packettest.New(t, append([]packettest.Option{packettest.Unsigned(), packettest.Catalogue(few())}, c.options...)...)
			dir := p.WriteDir(t, t.TempDir())
			before := tree(t, dir)
			o := attest.Options{Signer: signer(t, p.Key), Catalogue: few(), Clock: func() time.Time { return packettest.Now }}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if c.change != nil {
				c.change(&o)
			}
			if errors.Is(c.want, context.Canceled) {
				cancel()
			}
			_, err := attest.Attest(ctx, dir, o)
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("got %v, want %v %q", err, c.want, c.message)
			}
			if !maps.Equal(before, tree(t, dir)) {
				t.Error("the packet was changed")
			}
		})
	}
}

func TestSameEvidenceSamePacket(t *testing.T) {
	a := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	b := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	var x, y bytes.Buffer
	if err := packet.WriteArchive(&x, a.Files); err != nil {
		t.Fatal(err)
	}
	if err := packet.WriteArchive(&y, b.Files); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x.Bytes(), y.Bytes()) {
		t.Error("the same evidence gives two archives")
	}
	o := attest.Options{Signer: signer(t, a.Key), Catalogue: few(), Clock: func() time.Time { return packettest.Now }}
	r1, err := attest.Sign(context.Background(), a.Files, o)
	if err != nil {
		t.Fatal(err)
	}
	r2, err := attest.Sign(context.Background(), b.Files, o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r1.Statement, r2.Statement) {
		t.Error("the same evidence gives two statements")
	}
}

func scorecard(image, policy string, produced time.Time) []byte {
	return []byte(`{"schema":"wallproof.scorecard/v1","kind":"remediate","id":"sc-1","produced":"` + produced.Format(time.RFC3339) +
		`","image":"` + image + `","policy":"` + policy + `","score":93.5,"by":{"model":"x"}}`)
}

func TestScorecardBinding(t *testing.T) {
	ctx := context.Background()
	p := packettest.New(t, packettest.Catalogue(few()))
	other := packettest.New(t, packettest.Catalogue(few()), packettest.Key(p.Key), packettest.StartedAt(packettest.Started.Add(time.Hour)))
	s := signer(t, p.Key)
	good := scorecard(packettest.ImageDigest, p.Policy, packettest.Now)
	in := p.Input()
	in.Scorecard = good
	report := verify.Verify(in)
	if report.Verdict != verify.Valid || !report.Has(verify.CodeScorecardMatches) {
		t.Fatalf("%s: %v", report.Verdict, report.Failed())
	}
	binding, err := attest.SignBinding(ctx, report, good, s, packettest.Now)
	if err != nil {
		t.Fatal(err)
	}
	edited := bytes.Replace(good, []byte("93.5"), []byte("99.5"), 1)
	oin := other.Input()
	oin.Scorecard = good
	otherBinding, err := attest.SignBinding(ctx, verify.Verify(oin), good, s, packettest.Now)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := attest.SignStatement(ctx, binding.Statement, signer(t, stranger))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name               string
		scorecard, binding []byte
		require            []verify.Requirement
		verdict            verify.Verdict
		code               verify.Code
	}{
		{"bound", good, binding.Bundle, nil, verify.Valid, verify.CodeScorecardOK},
		{"bound and required", good, binding.Bundle, []verify.Requirement{verify.RequireScorecard}, verify.Valid, verify.CodeScorecardOK},
		{"edited after", edited, binding.Bundle, nil, verify.Invalid, verify.CodeBindingOther},
		{"bound to another attestation", good, otherBinding.Bundle, nil, verify.Invalid, verify.CodeBindingOther},
		{"bound by a stranger", good, forged, nil, verify.Invalid, verify.CodeBindingInvalid},
		{"another document as binding", good, p.Files[packet.VerificationFile], nil, verify.Invalid, verify.CodeBindingInvalid},
		{"no binding", good, nil, nil, verify.Valid, verify.CodeScorecardMatches},
		{"no binding, required", good, nil, []verify.Requirement{verify.RequireScorecard}, verify.VerdictHeld, verify.CodeBindingMissing},
		{"none, required", nil, nil, []verify.Requirement{verify.RequireScorecard}, verify.VerdictHeld, verify.CodeScorecardMissing},
		{"another image", scorecard(packettest.OtherDigest, p.Policy, packettest.Now), nil, nil, verify.VerdictHeld, verify.CodeScorecardImage},
		{"another policy", scorecard(packettest.ImageDigest, packettest.OtherDigest, packettest.Now), nil, nil, verify.VerdictHeld, verify.CodeScorecardPolicy},
		{"before the run", scorecard(packettest.ImageDigest, p.Policy, packettest.Started.Add(-time.Second)), nil, nil, verify.VerdictHeld, verify.CodeScorecardTime},
		{"in the future", scorecard(packettest.ImageDigest, p.Policy, packettest.Now.Add(time.Hour)), nil, nil, verify.VerdictHeld, verify.CodeScorecardTime},
		{"after expiry", scorecard(packettest.ImageDigest, p.Policy, packettest.Started.Add(61*24*time.Hour)), nil, nil, verify.VerdictHeld, verify.CodeScorecardTime},
		{"malformed", []byte("{}"), nil, nil, verify.Invalid, verify.CodeScorecardMalformed},
		{"member twice", bytes.Replace(good, []byte(`"id"`), []byte(`"id":"x","id"`), 1), nil, nil, verify.Invalid, verify.CodeScorecardMalformed},
	} {
		in := p.Input()
		in.Scorecard, in.Binding, in.Require = c.scorecard, c.binding, c.require
		if r := verify.Verify(in); r.Verdict != c.verdict || !r.Has(c.code) {
			t.Errorf("%s: %s, want %s with %s: %v", c.name, r.Verdict, c.verdict, c.code, r.Failed())
		}
	}
	// Nothing is bound to evidence that does not hold.
	in.PolicyDigest = packettest.OtherDigest
	if _, err := attest.SignBinding(ctx, verify.Verify(in), good, s, packettest.Now); !errors.Is(err, attest.ErrNoScorecard) {
		t.Errorf("bound although the policy drifted: %v", err)
	}
	if _, err := attest.SignVerification(ctx, verify.Report{}, s, "0.1.0"); !errors.Is(err, attest.ErrNotVerified) {
		t.Errorf("a re-run of nothing: %v", err)
	}
}

func TestPredicateTypesAreDistinct(t *testing.T) {
	types := []string{predicate.TypeBoundary, predicate.TypeVSA, predicate.TypeBinding}
	slices.Sort(types)
	if len(slices.Compact(types)) != 3 {
		t.Error("two predicate types are the same")
	}
}

// D1: a scorecard is of an agent that was created, continued or remediated, and of
// nothing else. One attestation backs all of them, the report names the kind, and the
// binding of one is none of another.
func TestScorecardKinds(t *testing.T) {
	p := packettest.New(t, packettest.Catalogue(few()))
	s := signer(t, p.Key)
	var first []byte
	for _, kind := range []string{predicate.KindCreate, predicate.KindContinue, predicate.KindRemediate, "delete", "Create", ""} {
		card := bytes.Replace(scorecard(packettest.ImageDigest, p.Policy, packettest.Now), []byte(`"remediate"`), []byte(`"`+kind+`"`), 1)
		in := p.Input()
		in.Scorecard = card
		r := verify.Verify(in)
		if kind != predicate.KindCreate && kind != predicate.KindContinue && kind != predicate.KindRemediate {
			if r.Verdict != verify.Invalid || !r.Has(verify.CodeScorecardMalformed) {
				t.Errorf("kind %q: %s", kind, r.Verdict)
			}
			continue
		}
		if r.Verdict != verify.Valid || !slices.ContainsFunc(r.Checks, func(c verify.Check) bool {
			return c.Code == verify.CodeScorecardMatches && strings.HasPrefix(c.Message, kind+" scorecard")
		}) {
			t.Errorf("kind %q: %s, %v", kind, r.Verdict, r.Failed())
		}
		b, err := attest.SignBinding(context.Background(), r, card, s, packettest.Now)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bundle
		}
		in.Binding = b.Bundle
		if r := verify.Verify(in); r.Verdict != verify.Valid || !r.Has(verify.CodeScorecardOK) {
			t.Errorf("kind %q, bound: %s, %v", kind, r.Verdict, r.Failed())
		}
		in.Binding = first
		if r := verify.Verify(in); (r.Verdict == verify.Valid) != (kind == predicate.KindCreate) {
			t.Errorf("kind %q, bound as another: %s", kind, r.Verdict)
		}
	}
}
