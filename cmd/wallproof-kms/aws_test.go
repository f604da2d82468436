//go:build stack

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/kms"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// insideVariable tells the child process that it runs in the network namespace.
const insideVariable = "WALLPROOF_TEST_AWS_INSIDE"

const awsKeyID = "0d990263-6471-4860-80b3-8e19de73ac44"

// TestAWS signs with a key in a server that speaks the protocol of AWS's key
// service. That server listens on every address, so it runs, with the test, in a
// network namespace of its own that has nothing but a loopback.
func TestAWS(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		testAWS(t)
		return
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	name := "wpkmstest-" + hex.EncodeToString(random)
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v (needs root): %v\n%s", args, err, out)
		}
	}
	ip("netns", "add", name)
	defer ip("netns", "delete", name)
	ip("-n", name, "link", "set", "lo", "up")
	dir, err := helper()
	if err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(dir, "sigstore-kms-awskms")
	if err := os.Link(filepath.Join(dir, "sigstore-kms-gcpkms"), alias); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", name, os.Args[0], "-test.run=^TestAWS$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
}

func testAWS(t *testing.T) {
	dir := os.Getenv(insideVariable)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	startLocalKMS(t, key)
	t.Setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:18080")
	t.Setenv("AWS_REGION", "eu-west-2")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	k, err := kms.Open(ctx, "awskms:///alias/testing", dir)
	if err != nil {
		t.Fatal(err)
	}
	if !k.GetPublicKey().(*ecdsa.PublicKey).Equal(key.Public()) || !strings.HasPrefix(k.KeyName(), "awskms:///alias/testing#sha256:") {
		t.Errorf("another key, recorded as %s", k.KeyName())
	}
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: k, Catalogue: few(), Clock: func() time.Time { return packettest.Now }})
	if err != nil {
		t.Fatal(err)
	}
	in := verify.Input{Packet: p.Files, Bundle: r.Bundle, Trust: verify.Trust{Key: key.Public()}, At: packettest.Now, Catalogue: few(), WithoutRerun: true}
	if report := verify.Verify(in); report.Verdict != verify.Valid {
		t.Errorf("%s: %v", report.Verdict, report.Failed())
	}
	if _, err := kms.Open(ctx, "awskms:///alias/nosuch", dir); !errors.Is(err, kms.ErrService) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// startLocalKMS serves one key under the alias "testing".
func startLocalKMS(t *testing.T, key *ecdsa.PrivateKey) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "wallproof", "stack", "local-kms-v*"))
	if err != nil || len(found) == 0 {
		t.Fatal("local-kms is not built; run: go run ./internal/tools/stack")
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	seed := fmt.Sprintf("Keys:\n  Asymmetric:\n    Ecc:\n      - Metadata:\n          KeyId: %s\n          KeyUsage: SIGN_VERIFY\n        PrivateKeyPem: |\n          %s\nAliases:\n  - AliasName: alias/testing\n    TargetKeyId: %s\n",
		awsKeyID, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n          "), awsKeyID)
	dir := t.TempDir()
	path := filepath.Join(dir, "seed.yaml")
	if err := os.WriteFile(path, []byte(seed), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(found[0])
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.Env = append(os.Environ(), "PORT=18080", "KMS_DATA_PATH="+dir, "KMS_SEED_PATH="+path, "KMS_REGION=eu-west-2", "KMS_ACCOUNT_ID=111122223333")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // a poll with a deadline
		resp, err := http.Get("http://127.0.0.1:18080/")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("local-kms does not answer: %v\n%s", err, log.String())
		}
	}
}
