// Conformance runs a folder of cases of the public sigstore-conformance suite:
//
//	go run ./internal/tools/conformance DIR                  the verifier as a library
//	go run ./internal/tools/conformance -command BIN DIR     BIN verify-bundle …
//
// A case is a folder; "_fail" at the end of its name means that verification
// must be refused. In it are bundle.sigstore.json and, where they differ from
// the defaults, artifact, identity, issuer, key.pub and trusted_root.json. Each
// case runs twice, with the artefact's path and with its digest. A command
// accepts by exit code 0 and refuses by 2; any other is an error of its own.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/verify"
)

// Defaults of the suite.
const (
	defaultIdentity = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main"
	defaultIssuer   = "https://token.actions.githubusercontent.com"
	defaultArtifact = "a.txt"
	defaultRoot     = "trusted_root.public-good.json"
)

// testCase is one folder.
type testCase struct {
	name, dir, artifact, root, identity, issuer, key string
}

func main() {
	command := flag.String("command", "", "program whose verify-bundle is asked; empty asks the library")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: conformance [-command BIN] DIR")
		os.Exit(1)
	}
	wrong, total, err := run(flag.Arg(0), *command)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
	fmt.Printf("conformance: %d of %d right\n", total-wrong, total)
	if wrong > 0 {
		os.Exit(1)
	}
}

func run(dir, command string) (wrong, total int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		c, err := load(dir, e.Name())
		if err != nil {
			return 0, 0, err
		}
		for _, byDigest := range []bool{false, true} {
			total++
			want := !strings.HasSuffix(c.name, "_fail")
			got, detail, err := c.ask(command, byDigest)
			if err != nil {
				return 0, 0, fmt.Errorf("%s: %w", c.name, err)
			}
			if got != want {
				wrong++
				fmt.Printf("WRONG %s (by digest: %v): accepted %v, want %v: %s\n", c.name, byDigest, got, want, detail)
			}
		}
	}
	if total == 0 {
		return 0, 0, fmt.Errorf("%s holds no case", dir)
	}
	return wrong, total, nil
}

func load(dir, name string) (testCase, error) {
	c := testCase{name: name, dir: filepath.Join(dir, name)}
	pick := func(file, fallback string) string {
		path := filepath.Join(c.dir, file)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		return filepath.Join(dir, fallback)
	}
	c.artifact, c.root = pick("artifact", defaultArtifact), pick("trusted_root.json", defaultRoot)
	if _, err := os.Stat(filepath.Join(c.dir, "key.pub")); err == nil {
		c.key = filepath.Join(c.dir, "key.pub")
	}
	var err error
	if c.identity, err = text(filepath.Join(c.dir, "identity"), defaultIdentity); err != nil {
		return c, err
	}
	c.issuer, err = text(filepath.Join(c.dir, "issuer"), defaultIssuer)
	return c, err
}

func text(path, fallback string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fallback, nil
	}
	return strings.TrimSpace(string(data)), err
}

// ask tells whether the case was accepted.
func (c testCase) ask(command string, byDigest bool) (accepted bool, detail string, err error) {
	artifact, err := os.ReadFile(c.artifact)
	if err != nil {
		return false, "", err
	}
	digest := ""
	if byDigest {
		sum := sha256.Sum256(artifact)
		digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	if command != "" {
		return c.askCommand(command, digest)
	}
	in := verify.BundleInput{Artifact: bytes.NewReader(artifact), Digest: digest, At: time.Now()}
	if in.Bundle, err = os.ReadFile(filepath.Join(c.dir, "bundle.sigstore.json")); err != nil {
		return false, "", err
	}
	if in.TrustedRoot, err = os.ReadFile(c.root); err != nil {
		return false, "", err
	}
	if in.Trust, err = c.trust(); err != nil {
		return false, "", err
	}
	if err := verify.CheckBundle(in); err != nil {
		return false, err.Error(), nil
	}
	return true, "", nil
}

func (c testCase) trust() (verify.Trust, error) {
	if c.key == "" {
		return verify.Trust{Identity: &verify.Identity{SAN: c.identity, Issuer: c.issuer}}, nil
	}
	data, err := os.ReadFile(c.key)
	if err != nil {
		return verify.Trust{}, err
	}
	key, err := keyfile.ParsePublicKey(data)
	return verify.Trust{Key: key}, err
}

func (c testCase) askCommand(command, digest string) (accepted bool, detail string, err error) {
	args := []string{"verify-bundle", "--bundle", filepath.Join(c.dir, "bundle.sigstore.json")}
	if c.key != "" {
		args = append(args, "--key", c.key)
	} else {
		args = append(args, "--certificate-identity", c.identity, "--certificate-oidc-issuer", c.issuer)
	}
	args = append(args, "--trusted-root", c.root)
	if digest == "" {
		digest = c.artifact
	}
	out, err := exec.Command(command, append(args, digest)...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, "", nil
	case errors.As(err, &exit) && exit.ExitCode() == verify.ExitInvalid:
		return false, string(bytes.TrimSpace(out)), nil
	case errors.As(err, &exit):
		return false, "", fmt.Errorf("exit %d: %s", exit.ExitCode(), out)
	}
	return false, "", err
}
