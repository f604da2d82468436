package render

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/verify"
)

var update = flag.Bool("update", false, "write golden files anew")

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

// report has each status, and text that every format must escape.
func report(v verify.Verdict) verify.Report {
	r := verify.Report{
		Verdict: v, Attestation: digest("a"), Bundle: digest("b"), Subject: digest("c"),
		Checks: []verify.Check{
			{Name: verify.CheckParse, Status: verify.Pass, Code: verify.CodeBundleOK, Message: "Sigstore bundle v0.3", Evidence: "attestation.sigstore.json"},
			{Name: verify.CheckTime, Status: verify.NotChecked, Code: verify.CodeTimeAsserted, Message: "no trusted timestamp"},
		},
		Times:       verify.Times{Checked: "2026-11-02T12:00:00.000Z", Collected: "2026-11-01T12:00:00.000Z", Attested: "2026-11-01T13:00:00.000Z", Expires: "2026-12-31T12:00:00.000Z"},
		Signer:      &verify.Signer{Kind: "key", Algorithm: "ecdsa-sha2-256-nistp256", Fingerprint: digest("d"), Key: "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1", Time: "asserted"},
		TrustedRoot: &verify.TrustedRoot{Source: "embedded", Digest: digest("e"), Date: "2026-09-08", Age: "55d"},
	}
	if v != verify.Valid {
		r.Checks = append(r.Checks, verify.Check{Name: verify.CheckPolicy, Status: verify.Held, Code: verify.CodePolicyDrift, Message: "in force is <b>another</b> | `policy`, 100%: see [x](https://e.example)", Evidence: "live.json"})
	}
	if v == verify.Invalid {
		r.Checks = append(r.Checks, verify.Check{Name: verify.CheckScorecard, Status: verify.Fail, Code: verify.CodeBindingInvalid, Message: "signature-invalid: \"quoted\" & more", Evidence: "binding"})
	}
	return r
}

func TestFormats(t *testing.T) {
	for _, v := range []verify.Verdict{verify.Valid, verify.VerdictHeld, verify.Invalid} {
		for _, f := range Formats() {
			t.Run(string(v)+"/"+string(f), func(t *testing.T) {
				var b bytes.Buffer
				if err := Report(&b, report(v), f, Options{Artifact: "demo/packet", Version: "0.1.0"}); err != nil {
					t.Fatal(err)
				}
				wellFormed(t, f, b.Bytes())
				golden(t, string(v)+"."+string(f), b.Bytes())
			})
		}
	}
	if err := Report(&bytes.Buffer{}, report(verify.Valid), "yaml", Options{}); err == nil {
		t.Error("an unknown format is accepted")
	}
}

func wellFormed(t *testing.T, f Format, data []byte) {
	t.Helper()
	switch f {
	case FormatJSON, FormatSARIF:
		if !json.Valid(data) {
			t.Error("not JSON")
		}
	case FormatJUnit:
		if err := xml.Unmarshal(data, new(junitSuite)); err != nil {
			t.Error(err)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; got:\n%s", path, got)
	}
}

func TestTextColorChangesNothingElse(t *testing.T) {
	var plain, color bytes.Buffer
	if err := Text(&plain, report(verify.Invalid), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := Text(&color, report(verify.Invalid), Options{Color: true}); err != nil {
		t.Fatal(err)
	}
	stripped := color.String()
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[1;31m", reset} {
		stripped = strings.ReplaceAll(stripped, code, "")
	}
	if stripped != plain.String() || color.String() == plain.String() {
		t.Error("colour changes more than colour, or nothing")
	}
	var ascii bytes.Buffer
	if err := Text(&ascii, report(verify.VerdictHeld), Options{ASCII: true}); err != nil {
		t.Fatal(err)
	}
	for _, r := range ascii.String() {
		if r > 0x7e {
			t.Errorf("%q in ASCII output", r)
		}
	}
}

func TestAnnotations(t *testing.T) {
	var b bytes.Buffer
	if err := GitHub(&b, report(verify.Invalid)); err != nil {
		t.Fatal(err)
	}
	golden(t, "github.txt", b.Bytes())
	if got := strings.Count(b.String(), "\n"); got != 2 {
		t.Errorf("%d lines, want one a finding", got)
	}
	b.Reset()
	if err := GitLab(&b, report(verify.Invalid), Options{Artifact: "demo/packet"}); err != nil {
		t.Fatal(err)
	}
	golden(t, "gitlab.json", b.Bytes())
}
