//go:build stack

package stacktest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// testCosign checks both ways, where the cosign command was built: it verifies
// our bundle, and we verify one that it made of our statement.
func testCosign(t *testing.T) {
	s := sharedStack(t)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(binary(t, "rekor")), "cosign-v*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Log("NOT RUN: cosign is not built (go run ./internal/tools/stack -all): the cross-check")
		return
	}
	cosign := func(args ...string) {
		t.Helper()
		cmd := exec.Command(found[0], args...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "SIGSTORE_NO_CACHE=1")
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
	root := file("root.json", s.root)

	p := unsigned(t)
	r, err := attest.Sign(context.Background(), p.Files, attest.Options{Signer: keylessSigner(t, s.token(t, who, nil)), Services: s.services, Catalogue: few()})
	if err != nil {
		t.Fatal(err)
	}
	cosign("verify-blob-attestation", "--bundle", file("ours.json", r.Bundle), "--trusted-root", root, "--certificate-identity", who, "--certificate-oidc-issuer", s.URL,
		"--use-signed-timestamps", "--type", predicate.TypeBoundary, "--digest", packettest.ImageDigest[len("sha256:"):], "--digestAlg", "sha256")

	out := filepath.Join(dir, "theirs.json")
	cosign("attest-blob", "--statement", file("statement.json", r.Statement), "--bundle", out, "--signing-config", file("signing.json", s.signingConfig()),
		"--trusted-root", root, "--identity-token", s.token(t, who, nil), "--yes")
	theirs, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	in := s.input(p, s.identity())
	in.Bundle, in.WithoutRerun = theirs, true
	want(t, verify.Verify(in), verify.Valid, verify.CodeSignerIdentity, verify.CodeTimeTimestamp, verify.CodeTransparencyOK)
}

// signingConfig describes the deployment to a signer.
func (s *stack) signingConfig() []byte {
	from := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	service := func(url string, version int) string {
		return fmt.Sprintf(`[{"url":%q,"majorApiVersion":%d,"operator":"stacktest","validFor":{"start":%q}}]`, url, version, from)
	}
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","caUrls":%s,"oidcUrls":%s,"rekorTlogUrls":%s,"tsaUrls":%s,"rekorTlogConfig":{"selector":"ANY"},"tsaConfig":{"selector":"ANY"}}`,
		service(s.services.Fulcio, 1), service(s.URL, 1), service(s.services.Rekor[0].URL, 2), service(s.services.Timestamps[0], 1))
}
