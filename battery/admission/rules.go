package admission

import (
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sgverify "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify"
	"github.com/wallproof/wallproof/verify/trustroot"
)

// Schema names the form of the rules whose digest the manifest records.
const Schema = "wallproof.admission/v1"

// Rules say who must have signed an image, and what must have built it. Either
// Key is given, or Identity and Issuer.
type Rules struct {
	Key      crypto.PublicKey
	Identity string // exactly as the certificate names it
	Issuer   string //
	Builder  string // exactly as the provenance names it, "" for none asked
	// TrustedRoot is a trusted root in JSON; nil means the public-good one.
	TrustedRoot []byte
	// WithoutSCT: the deployment of TrustedRoot has no certificate log.
	WithoutSCT bool
}

// Check says what is wrong with rules.
func (r *Rules) Check() error {
	switch {
	case r.Key == nil && r.Identity == "":
		return errors.New("admission: name the key that must have signed (--admit-key), or the identity (--admit-identity, --admit-issuer)")
	case r.Key != nil && r.Identity != "":
		return errors.New("admission: a key and an identity; name one of them")
	case (r.Identity == "") != (r.Issuer == ""):
		return errors.New("admission: an identity is only worth something with its issuer; give both --admit-identity and --admit-issuer")
	case r.WithoutSCT && (r.TrustedRoot == nil || r.Identity == ""):
		return errors.New("admission: --admit-without-sct is about certificates of a private deployment; give its --admit-trusted-root and an --admit-identity too")
	}
	return nil
}

// Digest names the rules: "sha256:" and the SHA-256 of their canonical JSON.
func (r *Rules) Digest() (string, error) {
	form := map[string]any{"schema": Schema}
	if r.Key != nil {
		f, err := verify.Fingerprint(r.Key)
		if err != nil {
			return "", err
		}
		form["key"] = f
	} else {
		trusted, err := r.trustedRoot()
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(trusted)
		form["identity"], form["issuer"], form["trustedRoot"] = r.Identity, r.Issuer, "sha256:"+hex.EncodeToString(sum[:])
		form["certificateLog"] = !r.WithoutSCT
	}
	if r.Builder != "" {
		form["builder"] = r.Builder
	}
	raw, err := canon.Marshal(form)
	if err != nil {
		return "", fmt.Errorf("write the rules of admission: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func (r *Rules) trustedRoot() ([]byte, error) {
	if r.TrustedRoot != nil {
		return r.TrustedRoot, nil
	}
	return trustroot.PublicGood()
}

// checker verifies candidates against rules.
type checker struct {
	rules    *Rules
	verifier *sgverify.Verifier
	policy   sgverify.PolicyOption
	name     string
}

func (r *Rules) checker() (*checker, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	c := &checker{rules: r}
	if r.Key != nil {
		return c, c.byKey()
	}
	return c, c.byIdentity()
}

func (c *checker) byKey() error {
	fingerprint, err := verify.Fingerprint(c.rules.Key)
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	if _, err := verify.Algorithm(c.rules.Key); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	key, err := signature.LoadVerifier(c.rules.Key, crypto.SHA256) // what cosign hashes with, for every curve
	if err != nil {
		return fmt.Errorf("admission: use the key: %w", err)
	}
	trusted := root.NewExpiringKey(key, time.Time{}, time.Time{})
	material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return trusted, nil })
	c.name, c.policy = "by the key "+fingerprint, sgverify.WithKey()
	c.verifier, err = sgverify.NewVerifier(material, sgverify.WithNoObserverTimestamps())
	return err
}

func (c *checker) byIdentity() error {
	raw, err := c.rules.trustedRoot()
	if err != nil {
		return err
	}
	material, err := trustroot.Parse(raw)
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	identity, err := sgverify.NewShortCertificateIdentity(c.rules.Issuer, "", c.rules.Identity, "")
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	options := []sgverify.VerifierOption{sgverify.WithTransparencyLog(1), sgverify.WithObserverTimestamps(1)}
	if !c.rules.WithoutSCT {
		options = append(options, sgverify.WithSignedCertificateTimestamps(1))
	}
	c.name, c.policy = fmt.Sprintf("by %.200s (%.200s)", c.rules.Identity, c.rules.Issuer), sgverify.WithCertificateIdentity(identity)
	c.verifier, err = sgverify.NewVerifier(material, options...)
	return err
}

// by says whose signature is wanted.
func (c *checker) by() string { return c.name }
