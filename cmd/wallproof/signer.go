package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/keyref"
	"github.com/wallproof/wallproof/attest/kms"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/version"
	"github.com/wallproof/wallproof/verify"
)

// keylessWord stands in place of a key where the signer is an identity.
const keylessWord = "keyless"

// keyServices are the key services for which `make build` installs a helper.
const keyServices = "gcpkms://, awskms://, azurekms://, hashivault:// or pkcs11:"

// serviceFlags say which services take part in a signature, and who signs where
// it is an identity.
func serviceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "identity-token", Usage: "OIDC identity token for a keyless signature (`FILE`, or the token; default: that of the CI system)"},
		&cli.StringFlag{Name: "signing-config", Usage: "Sigstore signing config: certificate authority, logs, timestamp authorities (`FILE`)"},
		&cli.BoolFlag{Name: "public-good", Usage: "use the public Sigstore services: identity and digest become public for ever"},
		&cli.BoolFlag{Name: "no-tlog", Usage: "leave transparency logs out; timestamp authorities still take part"},
	}
}

// signing is a signer with the services that take part.
type signing struct {
	attest.Signer
	services attest.Services
}

// openSigning opens the signer that a flag's value names: a key file, a key in a
// key service, or "keyless". root is the deployment's trusted root, or nil.
func openSigning(c *cli.Context, key string, root []byte) (signing, error) {
	services, err := signingServices(c, root)
	if err != nil {
		return signing{}, err
	}
	if key == keylessWord {
		if services.Fulcio == "" {
			return signing{}, errors.New("a keyless signature needs a certificate authority: name a deployment with --signing-config FILE (and --trusted-root FILE), or the public one with --public-good")
		}
		s, err := keylessSigner(c)
		return signing{s, services}, err
	}
	if c.String("identity-token") != "" {
		return signing{}, errors.New("--identity-token is for a keyless signature; leave it or the key away")
	}
	services.Fulcio = "" // a key needs no certificate
	s, err := openSigner(c.Context, key)
	return signing{s, services}, err
}

// signEvidence opens who signs what a verification found.
func signEvidence(c *cli.Context, key string, root []byte) (auditor.Signing, error) {
	s, err := openSigning(c, key, root)
	return s, err
}

// Rerun signs a re-run and puts it into the packet.
func (s signing) Rerun(ctx context.Context, r verify.Report, packet string) (string, error) {
	res, err := attest.SignVerificationWith(ctx, r, s.Signer, s.services, version.String())
	if err != nil {
		return "", fmt.Errorf("sign the re-run: %w", err)
	}
	return attest.WriteVerification(packet, res)
}

// Binding signs that a scorecard was bound to the attestation.
func (s signing) Binding(ctx context.Context, r verify.Report, scorecard []byte, at time.Time) ([]byte, error) {
	res, err := attest.SignBindingWith(ctx, r, scorecard, s.Signer, s.services, at)
	return res.Bundle, err
}

func signingServices(c *cli.Context, root []byte) (attest.Services, error) {
	withLog := !c.Bool("no-tlog")
	path := c.String("signing-config")
	switch {
	case path != "" && c.Bool("public-good"):
		return attest.Services{}, errors.New("give either --signing-config or --public-good, not both")
	case path != "":
		data, err := files.Read(path, attest.MaxSigningConfigBytes)
		if err != nil {
			return attest.Services{}, fmt.Errorf("read --signing-config: %w", err)
		}
		s, err := attest.ParseSigningConfig(data, time.Now(), withLog)
		if err != nil {
			return s, fmt.Errorf("read %s: %w", path, err)
		}
		s.TrustedRoot = root
		return s, nil
	case c.Bool("public-good"):
		s := attest.PublicGood(withLog)
		s.TrustedRoot = root
		return s, nil
	}
	return attest.Services{}, nil
}

// keylessSigner takes the token that was given, else the CI system's own.
func keylessSigner(c *cli.Context) (attest.Signer, error) {
	token, err := identityToken(c.Context, c.String("identity-token"))
	if err != nil {
		return nil, err
	}
	return attest.NewKeylessSigner(token)
}

func identityToken(ctx context.Context, given string) (string, error) {
	if given == "" {
		return attest.AmbientToken(ctx, os.LookupEnv, http.DefaultClient)
	}
	data, err := files.Read(given, keyfile.MaxBytes)
	if err == nil {
		token, err := attest.CheckToken(string(data))
		if err != nil {
			return "", fmt.Errorf("read the identity token %s: %w", given, err)
		}
		return token, nil
	}
	token, bad := attest.CheckToken(given)
	if bad != nil { // not a token either, so a file was meant; a token is never printed
		return "", fmt.Errorf("read --identity-token: %w", err)
	}
	return token, nil
}

// openSigner opens a private key: in a file, or in a key service.
func openSigner(ctx context.Context, key string) (attest.Signer, error) {
	if key == "" {
		return nil, errors.New("no key given; name one with --key FILE or --key URI (" + keyServices + "), sign with --keyless, or make a key with `wallproof attest --generate-key NAME`")
	}
	if keyref.Is(key) {
		return kms.Open(ctx, key, helperFolder())
	}
	data, err := files.Read(key, keyfile.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	private, err := keyfile.ParsePrivateKey(data, keyfile.Password(os.LookupEnv))
	if err != nil {
		return nil, fmt.Errorf("read the private key %s: %w", key, err)
	}
	return attest.NewKeySigner(private)
}

// helperFolder is where this program lies, with its helpers beside it.
func helperFolder() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(self)
}

// exportKey writes the public half of a key and never over an old file.
func exportKey(c *cli.Context, path string) error {
	s, err := openSigner(c.Context, c.String("key"))
	if err != nil {
		return err
	}
	data, err := keyfile.MarshalPublicKey(s.GetPublicKey())
	if err != nil {
		return err
	}
	if err := files.WriteNew(path, data, 0o644); err != nil {
		return fmt.Errorf("write the public key: %w", err)
	}
	_, err = fmt.Fprintln(c.App.Writer, "wrote "+path)
	return err
}
