//go:build browser

package sitetest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/wasm/engine"
)

// TestNoPaths: the verifier names no folder of the machine that built it, so
// that everybody who builds it gets the same bytes.
func TestNoPaths(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(verifier(t).Module))
	if err != nil {
		t.Fatal(err)
	}
	module, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if len(module) < 1<<20 || !bytes.Contains(module, []byte("sigstore-go")) {
		t.Fatalf("%d bytes that do not look like the verifier", len(module))
	}
	for _, dir := range []string{filepath.Dir(filepath.Dir(here)), "wallproof-slim", "=>\t/"} {
		if bytes.Contains(module, []byte(dir)) {
			t.Errorf("the verifier names %s", dir)
		}
	}
}

type engineCase struct {
	name    string
	files   packet.Memory
	options engine.Options
}

// TestSameVerifier: the verifier for the browser, from which everything that
// talks to a network was left out, gives the same report as this machine's, byte
// for byte. WALLPROOF_CONFORMANCE names a folder with cases of
// sigstore-conformance to be compared too; they exercise certificates,
// timestamps and logs.
func TestSameVerifier(t *testing.T) {
	cases := append(packetCases(t), conformanceCases(t, os.Getenv("WALLPROOF_CONFORMANCE"))...)
	var in bytes.Buffer
	var want []string
	for _, c := range cases {
		options, err := json.Marshal(c.options)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&in).Encode(map[string]any{"files": c.files, "options": string(options)}); err != nil {
			t.Fatal(err)
		}
		want = append(want, string(engine.Verify(c.files, options)))
	}
	folder, err := filepath.Abs(os.Getenv("WALLPROOF_WASM"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "browser/engine.mjs", folder)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(got) != len(cases) {
		t.Fatalf("%d answers to %d cases", len(got), len(cases))
	}
	for i, c := range cases {
		if plainSpaces(got[i]) != plainSpaces(want[i]) {
			t.Errorf("%s:\n browser %s\n machine %s", c.name, got[i], want[i])
		}
	}
	t.Logf("%d cases", len(cases))
}

// plainSpaces undoes what protobuf does to its error texts on purpose: it picks
// one of two spaces by the build.
func plainSpaces(s string) string { return strings.ReplaceAll(s, "\u00a0", " ") }

func packetCases(t *testing.T) []engineCase {
	f := newFixtures(t, t.TempDir())
	var out []engineCase
	for name, p := range map[string]*packettest.Packet{
		"valid": f.packet(), "escape": f.packet(packettest.Escape(technique(t, catalog.Critical))), "no re-run": f.packet(packettest.WithoutRerun()),
		"expired": f.packet(packettest.Validity(time.Hour)), "no red team": f.packet(packettest.WithoutRedTeam()),
	} {
		out = append(out, engineCase{name, p.Files, engine.Options{Key: string(p.PublicKeyPEM(t)), At: now.Format(time.RFC3339)}})
	}
	valid := f.packet()
	for name := range valid.Files {
		c := maps.Clone(valid.Files)
		b := bytes.Clone(c[name])
		b[len(b)/2] ^= 1
		c[name] = b
		out = append(out, engineCase{"one bit of " + name, c, engine.Options{Key: string(valid.PublicKeyPEM(t)), At: now.Format(time.RFC3339)}})
	}
	return out
}

// conformanceCases are bundles of others: their statements are not Wallproof's,
// but everything up to the statement is checked.
func conformanceCases(t *testing.T, dir string) []engineCase {
	if dir == "" {
		return nil
	}
	bundles, err := filepath.Glob(filepath.Join(dir, "*", "bundle.sigstore.json"))
	if err != nil || len(bundles) == 0 {
		t.Fatalf("no cases in %s: %v", dir, err)
	}
	read := func(fallback string, parts ...string) string {
		b, err := os.ReadFile(filepath.Join(parts...))
		if err != nil {
			return fallback
		}
		return strings.TrimSpace(string(b))
	}
	root := read("", dir, "trusted_root.public-good.json")
	var out []engineCase
	for _, b := range bundles {
		folder := filepath.Dir(b)
		o := engine.Options{At: now.Format(time.RFC3339), TrustedRoot: read(root, folder, "trusted_root.json"), Key: read("", folder, "key.pub")}
		if o.Key == "" {
			o.Identity = read("https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main", folder, "identity")
			o.Issuer = read("https://token.actions.githubusercontent.com", folder, "issuer")
		}
		out = append(out, engineCase{filepath.Base(folder), packet.Memory{packet.AttestationFile: []byte(read("", b))}, o})
	}
	return out
}
