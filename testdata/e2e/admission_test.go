//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/battery/image"
)

// Test9Admission: an image that is not signed as asked is not started, and one that
// is has it in the evidence.
func Test9Admission(t *testing.T) {
	_, policy := fixtures(t)
	agent, err := os.ReadFile(filepath.Join(bin(t), "wallproof-agent"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Demo(agent, image.DemoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addr, stop, err := image.ServeRegistry(context.Background(), map[string]v1.Image{"acme/app": img})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref := addr + "/acme/app@" + digest.String()
	dir := t.TempDir()
	t.Setenv("WALLPROOF_KEY_PASSWORD", "x")
	for _, k := range []string{"ours", "theirs"} {
		if r := wallproof(t, "attest", "--generate-key", filepath.Join(dir, k)); r.code != 0 {
			t.Fatalf("make a key: %s", r)
		}
	}
	args := func(out, key string) []string {
		return []string{"run", "--image", ref, "--policy", policy, "--out", out, "--only", "NET-TCP", "--admit-key", filepath.Join(dir, key+".pub")}
	}
	refused := func(why string, args []string) {
		t.Helper()
		if r := wallproof(t, args...); r.code != 2 || !strings.Contains(r.stderr, "not admitted") {
			t.Errorf("%s: want exit code 2: %s", why, r)
		}
		if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
			t.Errorf("%s: something was started", why)
		}
	}
	refused("unsigned", args(filepath.Join(dir, "out"), "ours"))
	signImage(t, addr+"/acme/app", digest.String(), filepath.Join(dir, "ours.key"))
	refused("another key", args(filepath.Join(dir, "out"), "theirs"))
	refused("no provenance", append(args(filepath.Join(dir, "out"), "ours"), "--admit-builder", "https://builder.example"))
	if r := wallproof(t, args(filepath.Join(dir, "out"), "ours")...); r.code != 3 { // a part of the catalogue is no claim
		t.Fatalf("signed: %s", r)
	}
	packet := filepath.Join(dir, "out", "packet")
	if first := string(lines(t, filepath.Join(packet, "manifest.jsonl"))[0]); !strings.Contains(first, `"admission":{"detail":"signed by the key sha256:`) || !strings.Contains(first, `"state":"admitted"`) {
		t.Errorf("entry 0: %s", first)
	}
	if r := wallproof(t, "attest", packet, "--key", filepath.Join(dir, "ours.key")); r.code != 0 {
		t.Fatalf("attest: %s", r)
	}
	if r := wallproof(t, "verify", packet, "--key", filepath.Join(dir, "ours.pub"), "--require", "admission"); r.code != 3 || !strings.Contains(r.stdout, "admission-admitted") {
		t.Errorf("verify: %s", r)
	}
}

// signImage signs as `cosign sign --key` does with a tag.
func signImage(t *testing.T, repo, digest, keyFile string) {
	t.Helper()
	data, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyfile.ParsePrivateKey(data, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	of, err := name.NewDigest(repo + "@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	text, err := payload.Cosign{Image: of}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	s, err := signature.LoadSigner(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.SignMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	layer := static.NewLayer(text, "application/vnd.dev.cosign.simplesigning.v1+json")
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: layer,
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig)}})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(repo + ":" + strings.Replace(digest, ":", "-", 1) + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
}
