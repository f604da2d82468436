//go:build stack

package stacktest

import (
	"context"
	"crypto"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/battery/admission"
	"github.com/wallproof/wallproof/battery/image"
)

// TestStackAdmission: images that the cosign command signed and attested, in its
// old form (tags) and its new one (bundles), are let in by the right key and
// builder, and by nothing else.
func TestStackAdmission(t *testing.T) {
	program := Optional(t, "cosign")
	if program == "" {
		t.Log("NOT RUN: cosign is not built (make stack ALL=1): admission of images that it signed")
		return
	}
	dir := t.TempDir()
	ours, ourKey := cosignKey(t, dir, "ours")
	_, otherKey := cosignKey(t, dir, "theirs")
	const builder = "https://ci.example/builder"
	predicate := filepath.Join(dir, "predicate.json")
	if err := os.WriteFile(predicate, []byte(`{"buildDefinition":{"buildType":"https://ci.example/type","externalParameters":{}},"runDetails":{"builder":{"id":"`+builder+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"false", "true"} {
		t.Run("new bundle "+form, func(t *testing.T) {
			srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
			defer srv.Close()
			repo := strings.TrimPrefix(srv.URL, "http://") + "/acme/"
			img, bare := pushRandom(t, repo+"app"), pushRandom(t, repo+"app")
			cosign := func(command string, args ...string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				args = append([]string{command, "--key", ours, "--tlog-upload=false", "--use-signing-config=false", "--new-bundle-format=" + form, "--yes"}, args...)
				cmd := exec.CommandContext(ctx, program, args...)
				cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=secret", "HOME="+dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("cosign %s: %v\n%s", command, err, out)
				}
			}
			admit := func(img *image.Resolved, key crypto.PublicKey, builder, refused string) {
				t.Helper()
				a, err := admission.Admit(context.Background(), img, "", &admission.Rules{Key: key, Builder: builder}, image.Options{})
				switch {
				case refused == "" && err != nil:
					t.Errorf("refused: %v", err)
				case refused == "":
					t.Log(a.Detail)
				case !errors.Is(err, admission.ErrNotAdmitted) || !strings.Contains(err.Error(), refused):
					t.Errorf("got %+v, %v; want a refusal with %q", a, err, refused)
				}
			}
			admit(img, ourKey, "", "neither signatures nor attestations")
			cosign("sign", img.Reference)
			admit(img, ourKey, "", "")
			admit(img, otherKey, "", "does not verify")
			admit(bare, ourKey, "", "neither signatures nor attestations")
			admit(img, ourKey, builder, "no provenance")
			cosign("attest", "--type", "slsaprovenance1", "--predicate", predicate, img.Reference)
			admit(img, ourKey, builder, "")
			admit(img, ourKey, builder+".evil", "provenance by the builder")
			admit(img, otherKey, builder, "does not verify")
			cosign("attest", "--type", "slsaprovenance1", "--predicate", predicate, bare.Reference)
			admit(bare, ourKey, "", "no signature")
		})
	}
}

// cosignKey writes a key in cosign's form and returns where, and its public half.
func cosignKey(t *testing.T, dir, as string) (string, crypto.PublicKey) {
	t.Helper()
	private, _, err := keyfile.GenerateKeyPair([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyfile.ParsePrivateKey(private, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, as+".key")
	if err := os.WriteFile(path, private, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, key.Public()
}

func pushRandom(t *testing.T, repo string) *image.Resolved {
	t.Helper()
	img, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(repo + "@" + d.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return &image.Resolved{Reference: ref.String(), Source: image.FromRegistry, Digest: d.String()}
}
