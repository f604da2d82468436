package attest

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/verify"
)

// Signer signs statements. It is sigstore-go's key pair with the name under
// which evidence records the key.
type Signer interface {
	sign.Keypair
	// KeyName is what stands in the statement's signing.key: the public key's
	// fingerprint, or the URI of a key service with the key's version.
	KeyName() string
}

// keySigner signs with a private key at hand.
type keySigner struct {
	key     crypto.Signer
	details signature.AlgorithmDetails
	name    string
	hint    []byte
}

// NewKeySigner returns a Signer for a private key of a supported algorithm: each
// signs with the hash that its size asks for (P-256 SHA-256, P-384 SHA-384,
// Ed25519 pure, RSA PKCS #1 v1.5 SHA-256).
func NewKeySigner(key crypto.Signer) (Signer, error) {
	details, err := signature.GetDefaultAlgorithmDetails(key.Public())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", keyfile.ErrForm, err)
	}
	name, err := verify.Fingerprint(key.Public())
	if err != nil {
		return nil, err
	}
	return &keySigner{key: key, details: details, name: name, hint: KeyHint(key.Public())}, nil
}

// KeyHint is the hint that cosign gives for a key: base64 of the SHA-256 of its
// PKIX form. It is nil for a key that has no such form.
func KeyHint(key crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(der)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

func (s *keySigner) KeyName() string                             { return s.name }
func (s *keySigner) GetHint() []byte                             { return s.hint }
func (s *keySigner) GetPublicKey() crypto.PublicKey              { return s.key.Public() }
func (s *keySigner) GetHashAlgorithm() protocommon.HashAlgorithm { return s.details.GetProtoHashType() }
func (s *keySigner) GetKeyAlgorithm() string                     { return KeyAlgorithm(s.details) }
func (s *keySigner) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return s.details.GetSignatureAlgorithm()
}

func (s *keySigner) GetPublicKeyPem() (string, error) {
	data, err := keyfile.MarshalPublicKey(s.key.Public())
	return string(data), err
}

// SignData signs data and returns the signature with what was signed: the
// digest, or data itself where the algorithm hashes by itself.
func (s *keySigner) SignData(ctx context.Context, data []byte) (sig, digest []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	digest = data
	hash := s.details.GetHashType()
	if hash != crypto.Hash(0) {
		h := hash.New()
		h.Write(data)
		digest = h.Sum(nil)
	}
	sig, err = s.key.Sign(rand.Reader, digest, hash)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	return sig, digest, nil
}

// KeyAlgorithm is the name by which sigstore-go asks a certificate authority for
// a certificate.
func KeyAlgorithm(d signature.AlgorithmDetails) string {
	switch d.GetKeyType() {
	case signature.RSA:
		return "RSA"
	case signature.ED25519:
		return "ED25519"
	}
	return "ECDSA"
}
