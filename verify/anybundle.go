package verify

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/wallproof/wallproof/internal/canon"
)

// BundleInput is a question about any Sigstore bundle, of any version and
// content: does it sign this artefact, and is it by this signer? It is what the
// public conformance suite asks. Evidence is verified by Verify, which asks for
// more.
type BundleInput struct {
	Bundle      []byte
	Trust       Trust
	TrustedRoot []byte // nil means the embedded one
	// Artifact is read to its end, or Digest ("sha256:…") stands for it.
	Artifact io.Reader
	Digest   string
	At       time.Time // no time of signing may lie after it
}

// CheckBundle verifies a bundle as Sigstore's client specification demands:
// certificate, certificate log, transparency log, and every kind of time that
// the bundle offers and the trusted root knows. nil means accepted.
func CheckBundle(in BundleInput) error {
	if err := canon.CheckJSON(in.Bundle, canon.Limits{Bytes: MaxBundleBytes, Depth: MaxBundleDepth, Members: maxMembers}); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(in.Bundle); err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	tr, err := NewVerifier(in.TrustedRoot, "", nil).root()
	if err != nil {
		return err
	}
	artifact, err := in.artifact()
	if err != nil {
		return err
	}
	material, policy, opts, err := in.Trust.bundlePolicy(tr)
	if err != nil {
		return err
	}
	timed, err := timeOptions(b, tr, in.Trust.Key != nil)
	if err != nil {
		return err
	}
	v, err := verify.NewVerifier(material, append(append(opts, timed...), verify.WithoutStatementPredicate())...)
	if err != nil {
		return fmt.Errorf("set up the verification: %w", err)
	}
	result, err := v.Verify(b, verify.NewPolicy(artifact, policy))
	if err != nil {
		return err
	}
	for _, t := range result.VerifiedTimestamps {
		if t.Timestamp.After(in.At.Add(ClockSkew)) {
			return fmt.Errorf("signed at %s, which has not come yet", t.Timestamp.UTC().Format(timeFormat))
		}
	}
	return nil
}

func (in BundleInput) artifact() (verify.ArtifactPolicyOption, error) {
	if in.Digest == "" {
		if in.Artifact == nil {
			return nil, errors.New("neither an artefact nor a digest was given")
		}
		return verify.WithArtifact(in.Artifact), nil
	}
	algorithm, digits, _ := strings.Cut(in.Digest, ":")
	sum, err := hex.DecodeString(digits)
	if err != nil || len(sum) == 0 {
		return nil, fmt.Errorf("%.100q is not a digest; write sha256: and hex digits", in.Digest)
	}
	return verify.WithArtifactDigest(algorithm, sum), nil
}

// bundlePolicy is what a trust demands of the signer.
func (t Trust) bundlePolicy(tr *root.TrustedRoot) (root.TrustedMaterial, verify.PolicyOption, []verify.VerifierOption, error) {
	var opts []verify.VerifierOption
	switch {
	case t.Key != nil && t.Identity == nil:
		material, err := keyMaterial(t.Key, tr)
		if len(tr.RekorLogs()) > 0 {
			opts = append(opts, verify.WithTransparencyLog(1))
		}
		return material, verify.WithKey(), opts, err
	case t.Identity != nil && t.Key == nil:
		identity, err := t.Identity.matcher()
		opts = append(opts, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1))
		return tr, verify.WithCertificateIdentity(identity), opts, err
	}
	return nil, nil, nil, errors.New("say whose signature counts: exactly one of a key and an identity")
}

// timeOptions demands every kind of time that is there: a good timestamp does
// not excuse a bad promise, nor the reverse.
func timeOptions(b *bundle.Bundle, tr *root.TrustedRoot, key bool) ([]verify.VerifierOption, error) {
	stamps, err := b.Timestamps()
	if err != nil {
		return nil, err
	}
	var opts []verify.VerifierOption
	if len(stamps) > 0 && len(tr.TimestampingAuthorities()) > 0 {
		opts = append(opts, verify.WithSignedTimestamps(1))
	}
	if b.HasInclusionPromise() && len(tr.RekorLogs()) > 0 {
		opts = append(opts, verify.WithIntegratedTimestamps(1))
	}
	switch {
	case len(opts) > 0:
	case key:
		opts = append(opts, verify.WithNoObserverTimestamps())
	default:
		opts = append(opts, verify.WithObserverTimestamps(1))
	}
	return opts, nil
}
