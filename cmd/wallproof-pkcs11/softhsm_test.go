//go:build pkcs11 && linux

package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
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

// softHSM is where Debian's package puts the module.
const softHSM = "/usr/lib/softhsm/libsofthsm2.so"

const testPIN = "270 13"

// token makes a SoftHSM token with keys of every kind, and returns them by label.
func token(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tokens"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(conf, []byte("directories.tokendir = "+dir+"/tokens\nobjectstore.backend = file\nlog.level = ERROR\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", conf)
	t.Setenv(moduleVariable, softHSM)
	t.Setenv(pinVariable, testPIN)
	util := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("softhsm2-util", args...).CombinedOutput(); err != nil {
			t.Fatalf("softhsm2-util %s (Debian: softhsm2): %v\n%s", args[0], err, out)
		}
	}
	for _, name := range []string{"wallproof", "other"} {
		util("--init-token", "--free", "--label", name, "--pin", testPIN, "--so-pin", "98765432")
	}
	keys := map[string]crypto.Signer{}
	for label, make := range map[string]func() (crypto.Signer, error){
		"p256": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"p384": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) },
		"p521": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) },
		"rsa":  func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) },
	} {
		k, err := make()
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, label+".pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		id := map[string]string{"p256": "01", "p384": "02", "p521": "03", "rsa": "04"}[label]
		util("--import", file, "--token", "wallproof", "--label", label, "--id", id, "--pin", testPIN)
		keys[label] = k
	}
	util("--import", filepath.Join(dir, "p256.pem"), "--token", "other", "--label", "twice", "--id", "0a", "--pin", testPIN)
	util("--import", filepath.Join(dir, "p384.pem"), "--token", "other", "--label", "twice", "--id", "0b", "--pin", testPIN)
	return keys
}

// build puts the helper, and the command line beside it, into a folder.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, pkg := range map[string]string{"sigstore-kms-pkcs11": ".", "wallproof": "../wallproof"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// Keys in a real token sign packets, by the library and by the command line.
func TestSoftHSM(t *testing.T) {
	keys := token(t)
	dir := build(t)
	ctx := context.Background()
	for ref, want := range map[string]struct{ label, name string }{
		"pkcs11://token=wallproof;object=p256":                  {"p256", "pkcs11://token=wallproof;object=p256#sha256:"},
		"pkcs11:token=wallproof;id=%02?module-path=" + softHSM:  {"p384", "pkcs11://token=wallproof;id=%02#sha256:"},
		"pkcs11:token=wallproof;object=rsa;id=%04;type=private": {"rsa", "pkcs11://token=wallproof;object=rsa;id=%04#sha256:"},
	} {
		s, err := kms.Open(ctx, ref, dir)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if !strings.HasPrefix(s.KeyName(), want.name) {
			t.Errorf("%s is recorded as %s", ref, s.KeyName())
		}
		p := packettest.New(t, packettest.Unsigned())
		r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: s, Clock: func() time.Time { return packettest.Now }})
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		in := verify.Input{Packet: p.Files, Bundle: r.Bundle, Trust: verify.Trust{Key: keys[want.label].Public()}, At: packettest.Now, WithoutRerun: true}
		if report := verify.Verify(in); report.Verdict != verify.Valid || report.Signer.Key != s.KeyName() {
			t.Errorf("%s: %s, key %s: %v", ref, report.Verdict, report.Signer.Key, report.Failed())
		}
	}
	for ref, text := range map[string]string{
		"pkcs11:token=wallproof;object=nosuch":                                           "no private keys",
		"pkcs11:token=nosuch;object=p256":                                                "no tokens",
		"pkcs11:token=other;object=twice":                                                "several private keys",
		"pkcs11:token=wallproof;object=p521":                                             "P-256 or P-384",
		"pkcs11:token=wallproof;object=p256?module-path=/nosuch.so":                      "load the PKCS #11 module",
		"pkcs11:token=wallproof;object=p256?module-path=/lib/x86_64-linux-gnu/libc.so.6": "not a PKCS #11 module",
		"pkcs11:token=wallproof;object=p256?pin-value=1":                                 pinVariable,
		"pkcs11:token=wallproof":                                                         "name the key",
	} {
		if _, err := kms.Open(ctx, ref, dir); !errors.Is(err, kms.ErrService) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", ref, err, text)
		}
	}
	t.Setenv(pinVariable, "1111")
	if _, err := kms.Open(ctx, "pkcs11:token=wallproof;object=p256", dir); err == nil || !strings.Contains(err.Error(), "wrong PIN") {
		t.Errorf("a wrong PIN: %v", err)
	}
	t.Setenv(pinVariable, testPIN)

	work := t.TempDir()
	p := packettest.New(t, packettest.Unsigned(), packettest.StartedAt(time.Now().Add(-time.Minute)), packettest.WithoutRedTeam())
	p.WriteDir(t, work)
	exits := func(code int, text string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "wallproof"), args...)
		cmd.Dir = work
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), text) {
			t.Errorf("wallproof %s: %v, want exit code %d with %q\n%s", strings.Join(args, " "), err, code, text, out)
		}
	}
	const ref = "pkcs11:token=wallproof;object=p256"
	exits(0, "", "attest", "--key", ref, "--export-key", "token.pub")
	exits(0, "pkcs11://token=wallproof;object=p256#sha256:", "attest", "packet", "--key", ref)
	exits(3, "rerun-missing", "verify", "packet", "--key", "token.pub")
	exits(0, "VALID", "verify", "packet", "--key", "token.pub", "--sign", ref)
	exits(0, "VALID", "verify", "packet", "--key", "token.pub")
	exits(1, "verifying opens no socket", "verify", "packet", "--key", ref)
}
