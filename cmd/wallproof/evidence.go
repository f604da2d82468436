package main

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
)

// Bounds on files that the command line reads whole.
const (
	maxKeyFile  = 64 << 10
	maxDocument = packet.MaxDocumentBytes
)

// trustFlags say whose signature counts.
func trustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "key", Aliases: []string{"k"}, Usage: "public key that signed, PEM (`FILE`)"},
		&cli.StringFlag{Name: "certificate-identity", Usage: "exact `IDENTITY` in the signing certificate"},
		&cli.StringFlag{Name: "certificate-identity-regexp", Usage: "`PATTERN` for the whole identity"},
		&cli.StringFlag{Name: "certificate-oidc-issuer", Usage: "exact `URL` of the identity's issuer"},
		&cli.StringFlag{Name: "certificate-oidc-issuer-regexp", Usage: "`PATTERN` for the whole issuer"},
		&cli.StringFlag{Name: "trusted-root", Usage: "Sigstore trusted root in place of the embedded one (`FILE`)"},
		&cli.StringFlag{Name: "verifier-key", Usage: "public key that a verifier re-run must have, where it is not the attester's (`FILE`)"},
		&cli.StringSliceFlag{Name: "redteam-key", Usage: "public key that a signed red-team result may have (`FILE`, repeatable)"},
	}
}

// freshnessFlags say what the evidence is compared with.
func freshnessFlags() []cli.Flag {
	return []cli.Flag{
		policyFlag(),
		&cli.StringFlag{Name: "image", Usage: "`DIGEST` that is asked about (sha256:…)"},
		&cli.StringFlag{Name: "live", Usage: "what is deployed now (`FILE`, live.json)"},
		&cli.StringSliceFlag{Name: "require", Usage: "make `THINGS` a condition: " + strings.Join(requirementNames(), ", ")},
		&cli.StringFlag{Name: "at", Usage: "answer for a past `TIME` (RFC 3339)"},
		&cli.DurationFlag{Name: "max-age", Usage: "cap on the age of an attestation", Value: verify.DefaultMaxAge},
		&cli.StringFlag{Name: "bundle", Usage: "attestation in place of the packet's own (`FILE`)"},
	}
}

func requirementNames() []string {
	var out []string
	for _, r := range verify.Requirements() {
		out = append(out, string(r))
	}
	return out
}

// verifyInput collects everything that a verification depends on: from files
// only, nothing is fetched.
func verifyInput(c *cli.Context) (verify.Input, error) {
	in := verify.Input{Image: c.String("image"), MaxAge: c.Duration("max-age")}
	if c.Args().Len() != 1 {
		return in, errors.New("name one packet (a folder or an archive) or one bundle")
	}
	if err := openEvidence(c.Args().First(), &in); err != nil {
		return in, err
	}
	steps := []func(*cli.Context, *verify.Input) error{readTrust, readFreshness, readRequire}
	for _, step := range steps {
		if err := step(c, &in); err != nil {
			return in, err
		}
	}
	if in.At.IsZero() {
		in.At = time.Now().UTC()
	}
	return in, nil
}

// openEvidence opens a packet's folder or archive, or a bundle alone.
func openEvidence(path string, in *verify.Input) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open the evidence: %w", err)
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path) // no link in a packet leads out of it
		if err != nil {
			return fmt.Errorf("open the packet: %w", err)
		}
		in.Packet = root.FS()
		return nil
	}
	head, err := readHead(path)
	if err != nil {
		return fmt.Errorf("open the evidence: %w", err)
	}
	if !isTar(head) {
		in.Bundle, err = readBounded(path, maxDocument)
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the packet: %w", err)
	}
	defer f.Close()
	in.Packet, err = packet.ReadArchive(f)
	return err
}

// tarHead is how much of a file tells a tar archive from a bundle.
const tarHead = 512

func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, tarHead)
	n, err := f.Read(head)
	if n == 0 && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return head[:n], nil
}

func isTar(head []byte) bool {
	return len(head) == tarHead && bytes.Equal(head[257:262], []byte("ustar"))
}

// readKey reads a public key in PEM. Of a private key it takes the public half.
func readKey(path string) (crypto.PublicKey, error) {
	data, err := readBounded(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	if bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		key, err := attest.ParsePrivateKey(data, attest.Password(os.LookupEnv))
		if err != nil {
			return nil, fmt.Errorf("read the key %s: %w", path, err)
		}
		return key.Public(), nil
	}
	key, err := attest.ParsePublicKey(data)
	if err != nil {
		return nil, fmt.Errorf("read the public key %s: %w", path, err)
	}
	return key, nil
}

func readTrust(c *cli.Context, in *verify.Input) error {
	identity := verify.Identity{SAN: c.String("certificate-identity"), SANPattern: c.String("certificate-identity-regexp"),
		Issuer: c.String("certificate-oidc-issuer"), IssuerPattern: c.String("certificate-oidc-issuer-regexp")}
	switch {
	case c.String("key") != "" && identity != (verify.Identity{}):
		return errors.New("give either --key or --certificate-identity, not both")
	case c.String("key") != "":
		key, err := readKey(c.String("key"))
		if err != nil {
			return err
		}
		in.Trust.Key = key
	case identity != (verify.Identity{}):
		if (identity.SAN == "" && identity.SANPattern == "") || (identity.Issuer == "" && identity.IssuerPattern == "") {
			return errors.New("an identity needs its issuer too: give --certificate-identity and --certificate-oidc-issuer")
		}
		in.Trust.Identity = &identity
	default:
		return errors.New("say whose signature counts: --key PUB, or --certificate-identity ID with --certificate-oidc-issuer URL")
	}
	if path := c.String("verifier-key"); path != "" {
		key, err := readKey(path)
		if err != nil {
			return err
		}
		in.VerifierTrust = &verify.Trust{Key: key}
	}
	for _, path := range c.StringSlice("redteam-key") {
		key, err := readKey(path)
		if err != nil {
			return err
		}
		in.RedTeamKeys = append(in.RedTeamKeys, key)
	}
	return readInto(c, "trusted-root", &in.TrustedRoot)
}

// readInto reads the file that a flag names, if it names one.
func readInto(c *cli.Context, flag string, to *[]byte) error {
	path := c.String(flag)
	if path == "" {
		return nil
	}
	data, err := readBounded(path, maxDocument)
	if err != nil {
		return fmt.Errorf("read --%s: %w", flag, err)
	}
	*to = data
	return nil
}

func readFreshness(c *cli.Context, in *verify.Input) error {
	if c.String("policy") != "" {
		p, err := readPolicy(c.String("policy"))
		if err != nil {
			return err
		}
		if in.PolicyDigest, err = p.Digest(); err != nil {
			return err
		}
	}
	if at := c.String("at"); at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return fmt.Errorf("read --at: %w; write it as 2026-01-31T12:00:00Z", err)
		}
		in.At = t.UTC()
	}
	return errors.Join(readInto(c, "live", &in.Live), readInto(c, "bundle", &in.Bundle))
}

func readRequire(c *cli.Context, in *verify.Input) error {
	for _, list := range c.StringSlice("require") {
		for _, name := range strings.Split(list, ",") {
			r := verify.Requirement(strings.TrimSpace(name))
			if !slices.Contains(verify.Requirements(), r) {
				return fmt.Errorf("--require %q: there is no such requirement; there are: %s", name, strings.Join(requirementNames(), ", "))
			}
			in.Require = append(in.Require, r)
		}
	}
	return nil
}
