package verify

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// Bounds on a bundle from outside.
const (
	MaxBundleBytes = 64 << 20
	MaxBundleDepth = 32
	maxMembers     = 4096
)

// bundleVersion is the only one that Wallproof writes and reads.
const bundleVersion = "v0.3"

// envelope is a bundle that was read but not yet believed.
type envelope struct {
	bundle  *bundle.Bundle
	sig     verify.SignatureContent
	content verify.VerificationContent
	payload []byte
	kind    string // payload type
}

// readBundle parses a bundle strictly. The second result is the reason of a
// refusal.
func readBundle(data []byte) (*envelope, Code, error) {
	if len(data) > MaxBundleBytes {
		return nil, CodeBundleTooLarge, fmt.Errorf("%d bytes, the limit is %d", len(data), MaxBundleBytes)
	}
	err := canon.CheckJSON(data, canon.Limits{Bytes: MaxBundleBytes, Depth: MaxBundleDepth, Members: maxMembers})
	if err != nil {
		return nil, CodeBundleMalformed, err
	}
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(data); err != nil {
		if errors.Is(err, bundle.ErrUnsupportedMediaType) {
			return nil, CodeBundleVersion, err
		}
		return nil, CodeBundleMalformed, err
	}
	if version, err := b.Version(); err != nil || version != bundleVersion {
		return nil, CodeBundleVersion, fmt.Errorf("bundle %s; Wallproof reads %s", version, bundleVersion)
	}
	dsse := b.GetDsseEnvelope()
	if dsse == nil {
		return nil, CodeBundleContent, errors.New("the bundle signs a message, not a DSSE envelope with a statement")
	}
	e := &envelope{bundle: b, payload: dsse.GetPayload(), kind: dsse.GetPayloadType()}
	if e.sig, err = b.SignatureContent(); err != nil {
		return nil, CodeBundleMalformed, err
	}
	if e.content, err = b.VerificationContent(); err != nil {
		return nil, CodeBundleMalformed, err
	}
	if n := len(dsse.GetSignatures()); n != 1 {
		return nil, CodeSignatureCount, fmt.Errorf("%d signatures; a bundle must have exactly one", n)
	}
	return e, "", nil
}

// witnessed tells whether a log or a timestamp authority says something about
// the signature, so that a trusted root is needed to hear it.
func (e *envelope) witnessed() bool {
	m := e.bundle.GetVerificationMaterial()
	return len(m.GetTlogEntries()) > 0 || len(m.GetTimestampVerificationData().GetRfc3161Timestamps()) > 0
}

// Fingerprint is the SHA-256 of a public key's PKIX form, "sha256:…".
func Fingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("fingerprint of a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Algorithm names a public key's signature algorithm, as it stands in evidence,
// or says that Wallproof does not use it.
func Algorithm(key crypto.PublicKey) (string, error) {
	details, err := signature.GetDefaultAlgorithmDetails(key)
	if err != nil {
		return "", fmt.Errorf("a key of type %T is not supported; use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits or more: %w", key, err)
	}
	name, err := signature.FormatSignatureAlgorithmFlag(details.GetSignatureAlgorithm())
	if err != nil {
		return "", fmt.Errorf("name the algorithm of a key: %w", err)
	}
	return name, nil
}

// keyMaterial trusts exactly one key, whatever hint a bundle gives, beside a
// trusted root for timestamps and logs.
func keyMaterial(key crypto.PublicKey, tr root.TrustedMaterial) (root.TrustedMaterial, error) {
	verifier, err := signature.LoadDefaultVerifier(key)
	if err != nil {
		return nil, err
	}
	trusted := root.NewExpiringKey(&once{Verifier: verifier}, zeroTime, zeroTime)
	material := root.TrustedMaterialCollection{
		root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return trusted, nil }),
	}
	if tr != nil {
		material = append(material, tr)
	}
	return material, nil
}

// payloadDigest names an attestation: it is over the signed bytes, so that it
// does not change with the white space around them or with a second signature.
func payloadDigest(payload []byte) string { return predicate.Digest(payload) }
