//go:build (linux || darwin) && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/sigstore/sigstore/pkg/signature"
)

var (
	errPublicKey = errors.New("the token has neither a public key nor a certificate for this private key")
	errKeyType   = errors.New("the key is neither EC on P-256 or P-384 nor RSA")
	errCreate    = errors.New("keys are made with the token's own tools")
)

// signer is a key in a token, as the plugin protocol wants it.
type signer struct {
	*session
	public crypto.PublicKey
	hash   crypto.Hash
}

// newSigner opens a key. hash is what messages are hashed with.
func newSigner(r reference, hash crypto.Hash) (*signer, error) {
	s, err := open(r)
	if err != nil {
		return nil, err
	}
	public, err := s.publicKey()
	if err != nil {
		return nil, err
	}
	return &signer{s, public, hash}, nil
}

// publicKey reads the public half: from the public key object, or else the
// certificate, that has the private key's id.
func (s *session) publicKey() (crypto.PublicKey, error) {
	id, err := s.attribute(s.key, attrID)
	label := ""
	if err != nil { // a token need not give keys an id
		id, label = nil, s.ref.object
	}
	found, err := s.find(classPublic, label, id)
	if err != nil {
		return nil, err
	}
	if len(found) == 1 {
		return s.readPublic(found[0])
	}
	if found, err = s.find(classCertificate, label, id); err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, errPublicKey
	}
	der, err := s.attribute(found[0], attrValue)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the token's certificate: %w", err)
	}
	return c.PublicKey, nil
}

func (s *session) readPublic(object ulong) (crypto.PublicKey, error) {
	raw, err := s.attribute(object, attrKeyType)
	if err != nil {
		return nil, err
	}
	var typ [8]byte
	copy(typ[:], raw)
	switch binary.NativeEndian.Uint64(typ[:]) {
	case keyEC:
		return s.readEC(object)
	case keyRSA:
		n, err := s.attribute(object, attrModulus)
		if err != nil {
			return nil, err
		}
		e, err := s.attribute(object, attrExponent)
		if err != nil {
			return nil, err
		}
		exponent := new(big.Int).SetBytes(e)
		if !exponent.IsInt64() || exponent.Int64() > 1<<31-1 {
			return nil, errKeyType
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}, nil
	}
	return nil, errKeyType
}

// curves are the ones that sign, by their object identifiers.
var curves = map[string]elliptic.Curve{"1.2.840.10045.3.1.7": elliptic.P256(), "1.3.132.0.34": elliptic.P384()}

func (s *session) readEC(object ulong) (crypto.PublicKey, error) {
	params, err := s.attribute(object, attrECParams)
	if err != nil {
		return nil, err
	}
	var oid asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(params, &oid); err != nil {
		return nil, errKeyType
	}
	curve, ok := curves[oid.String()]
	if !ok {
		return nil, errKeyType
	}
	point, err := s.attribute(object, attrECPoint)
	if err != nil {
		return nil, err
	}
	// The standard wants the point in an OCTET STRING; some modules leave that out.
	var inner []byte
	if rest, err := asn1.Unmarshal(point, &inner); err == nil && len(rest) == 0 {
		point = inner
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil, fmt.Errorf("the token's public key: %w", err)
	}
	return key, nil
}

// hashes that messages may be hashed with, with the prefix that PKCS #1 v1.5 puts
// before each digest (RFC 8017, 9.2).
var hashes = map[crypto.Hash][]byte{
	crypto.SHA256: {0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20},
	crypto.SHA384: {0x30, 0x41, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0x04, 0x30},
	crypto.SHA512: {0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03, 0x05, 0x00, 0x04, 0x40},
}

// PublicKey returns the public half.
func (s *signer) PublicKey(...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return s.public, nil
}

// SignMessage hashes a message and lets the token sign the digest.
func (s *signer) SignMessage(message io.Reader, opts ...signature.SignOption) ([]byte, error) {
	digest, hash, err := signature.ComputeDigestForSigning(message, s.hash, []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}, opts...)
	if err != nil {
		return nil, err
	}
	switch key := s.public.(type) {
	case *rsa.PublicKey:
		return s.sign(mechRSA, append(bytes.Clone(hashes[hash]), digest...))
	case *ecdsa.PublicKey:
		raw, err := s.sign(mechECDSA, digest)
		if err != nil {
			return nil, err
		}
		half := (key.Curve.Params().BitSize + 7) / 8
		if len(raw) != 2*half {
			return nil, fmt.Errorf("%w: a signature of %d bytes", errModule, len(raw))
		}
		return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:half]), new(big.Int).SetBytes(raw[half:])})
	}
	return nil, errKeyType
}

// VerifySignature verifies with the public half; the token has no part in it.
func (s *signer) VerifySignature(sig, message io.Reader, opts ...signature.VerifyOption) error {
	v, err := signature.LoadVerifier(s.public, s.hash)
	if err != nil {
		return err
	}
	return v.VerifySignature(sig, message, opts...)
}

// CreateKey is not offered.
func (s *signer) CreateKey(context.Context, string) (crypto.PublicKey, error) { return nil, errCreate }

// CryptoSigner is not offered: the plugin protocol has no use for it.
func (s *signer) CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error) {
	return nil, nil, errCreate
}

// SupportedAlgorithms lists what a key may be made for: none.
func (s *signer) SupportedAlgorithms() []string { return nil }

// DefaultAlgorithm names what a key would be made for: none.
func (s *signer) DefaultAlgorithm() string { return "" }
