//go:build stack

package stacktest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// testCosign checks both ways, where the cosign command was built: it verifies
// our bundle, and we verify one that it made of our statement.
func testCosign(t *testing.T) {
	s := sharedStack(t)
	program := Optional(t, "cosign")
	if program == "" {
		t.Log("NOT RUN: cosign is not built (make stack ALL=1): the cross-check")
		return
	}
	cosign := func(args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "SIGSTORE_NO_CACHE=1", "COSIGN_PASSWORD=secret")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cosign %s: %v\n%s", args[0], err, out)
		}
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root := file("root.json", s.Root)

	p := unsigned(t)
	r, err := attest.Sign(context.Background(), p.Files, attest.Options{Signer: keylessSigner(t, s.Token(t, who, nil)), Services: s.Services, Catalogue: few()})
	if err != nil {
		t.Fatal(err)
	}
	cosign("verify-blob-attestation", "--bundle", file("ours.json", r.Bundle), "--trusted-root", root, "--certificate-identity", who, "--certificate-oidc-issuer", s.URL,
		"--use-signed-timestamps", "--type", predicate.TypeBoundary, "--digest", packettest.ImageDigest[len("sha256:"):], "--digestAlg", "sha256")

	out := filepath.Join(dir, "theirs.json")
	cosign("attest-blob", "--statement", file("statement.json", r.Statement), "--bundle", out, "--signing-config", file("signing.json", s.SigningConfig()),
		"--trusted-root", root, "--identity-token", s.Token(t, who, nil), "--yes")
	theirs, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	in := s.input(p, s.identity())
	in.Bundle, in.WithoutRerun = theirs, true
	want(t, verify.Verify(in), verify.Valid, verify.CodeSignerIdentity, verify.CodeTimeTimestamp, verify.CodeTransparencyOK)

	// With a key of our own making, in cosign's form: logged and timestamped, and
	// neither.
	private, public, err := keyfile.GenerateKeyPair([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyfile.ParsePrivateKey(private, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := attest.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	pub := file("cosign.pub", public)
	for name, c := range map[string]struct {
		services attest.Services
		args     []string
	}{
		"witnessed": {s.Services, []string{"--trusted-root", root, "--use-signed-timestamps"}},
		"bare":      {attest.Services{}, []string{"--insecure-ignore-tlog"}},
	} {
		r, err := attest.Sign(context.Background(), p.Files, attest.Options{Signer: signer, Services: c.services, Catalogue: few()})
		if err != nil {
			t.Fatal(err)
		}
		cosign(append([]string{"verify-blob-attestation", "--bundle", file(name+".json", r.Bundle), "--key", pub, "--type", predicate.TypeBoundary,
			"--digest", packettest.ImageDigest[len("sha256:"):], "--digestAlg", "sha256"}, c.args...)...)
	}
	r, err = attest.Sign(context.Background(), p.Files, attest.Options{Signer: signer, Catalogue: few()})
	if err != nil {
		t.Fatal(err)
	}
	cosign("attest-blob", "--statement", file("keyed.json", r.Statement), "--bundle", out, "--key", file("cosign.key", private),
		"--signing-config", file("signing.json", s.SigningConfig()), "--trusted-root", root, "--yes")
	if theirs, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	in = s.input(p, verify.Trust{Key: key.Public()})
	in.Bundle, in.WithoutRerun = theirs, true
	want(t, verify.Verify(in), verify.Valid, verify.CodeSignerKey, verify.CodeTimeTimestamp, verify.CodeTransparencyOK)
}
