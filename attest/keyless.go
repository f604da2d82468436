package attest

import (
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore/pkg/signature"
)

// keyless is a key that exists for one signature; a certificate says whose it
// was.
type keyless struct {
	*sign.EphemeralKeypair
	token string
}

// KeyName is empty: the identity is in the certificate.
func (keyless) KeyName() string { return "" }

// NewKeylessSigner returns a Signer with a new ECDSA P-256 key, for which the
// services' certificate authority issues a certificate in exchange for an OIDC
// identity token.
func NewKeylessSigner(token string) (Signer, error) {
	if token == "" {
		return nil, ErrNoToken
	}
	k, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, fmt.Errorf("make a key for one signature: %w", err)
	}
	return keyless{k, token}, nil
}

// tokenOf returns the identity token of a keyless signer, "" for others.
func tokenOf(s Signer) string {
	if k, ok := s.(keyless); ok {
		return k.token
	}
	return ""
}

// withKey adds the signer's public key to a trusted root, so that the bundle can
// be verified right after it was made.
func withKey(tr root.TrustedMaterial, k sign.Keypair, token string) (root.TrustedMaterial, error) {
	if token != "" {
		return tr, nil
	}
	verifier, err := signature.LoadDefaultVerifier(k.GetPublicKey())
	if err != nil {
		return nil, err
	}
	key := root.NewExpiringKey(verifier, time.Time{}, time.Time{})
	return root.TrustedMaterialCollection{root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return key, nil }), tr}, nil
}
