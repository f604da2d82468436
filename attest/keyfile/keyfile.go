// Package keyfile reads and writes keys in files: cosign's encrypted key files, and
// PEM (PKCS #8, SEC 1, PKIX).
package keyfile

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/wallproof/wallproof/verify"
)

// PEM types of keys.
const (
	pemSigstore = "ENCRYPTED SIGSTORE PRIVATE KEY"
	pemCosign   = "ENCRYPTED COSIGN PRIVATE KEY"
	pemPKCS8    = "PRIVATE KEY"
	pemEC       = "EC PRIVATE KEY"
	pemPublic   = "PUBLIC KEY"
)

// Environment variables that hold the password of a key file, in the order in
// which they are asked. An empty value counts: it is the password of a key that
// was generated with none.
const (
	PasswordVariable       = "WALLPROOF_KEY_PASSWORD"
	CosignPasswordVariable = "COSIGN_PASSWORD"
)

// MaxBytes bounds a key file.
const MaxBytes = 64 << 10

// Errors of key files.
var (
	ErrForm       = errors.New("not a key that Wallproof reads")
	ErrPassword   = errors.New("the key file's password is wrong, or the file is damaged; set " + PasswordVariable)
	ErrNoPassword = errors.New("the key file is encrypted; set " + PasswordVariable + " to its password, or to nothing for a key made without one")
)

// Password finds the password of a key file in the environment through lookup
// (os.LookupEnv). Without any variable it is empty.
func Password(lookup func(string) (string, bool)) []byte {
	for _, name := range []string{PasswordVariable, CosignPasswordVariable} {
		if v, ok := lookup(name); ok {
			return []byte(v)
		}
	}
	return nil
}

// GenerateKeyPair makes an ECDSA P-256 key pair in cosign's key file format, the
// private half encrypted under the password, which may be empty.
func GenerateKeyPair(password []byte) (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	return EncryptKey(key, password)
}

// EncryptKey writes a private key and its public half in cosign's key file
// format.
func EncryptKey(key crypto.Signer, password []byte) (private, public []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt a key: %w", err)
	}
	box, err := encrypted.Encrypt(der, password)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt a key: %w", err)
	}
	public, err = MarshalPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemSigstore, Bytes: box}), public, nil
}

// ParsePrivateKey reads a private key file. password is used for an encrypted
// one. An algorithm that Wallproof cannot sign with is refused here, by name.
func ParsePrivateKey(data, password []byte) (crypto.Signer, error) {
	block, err := onePEM(data)
	if err != nil {
		return nil, err
	}
	der := block.Bytes
	switch block.Type {
	case pemSigstore, pemCosign:
		if der, err = encrypted.Decrypt(block.Bytes, password); err != nil {
			if password == nil {
				return nil, ErrNoPassword
			}
			return nil, ErrPassword
		}
	case pemPKCS8:
	case pemEC:
		return parseEC(der)
	case pemPublic:
		return nil, fmt.Errorf("%w to sign: this is the public half; give the private one", ErrForm)
	default:
		return nil, fmt.Errorf("%w: a PEM block of type %.60q", ErrForm, block.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return usable(key)
}

func parseEC(der []byte) (crypto.Signer, error) {
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return usable(key)
}

func usable(key any) (crypto.Signer, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: a key of type %T cannot sign", ErrForm, key)
	}
	if _, err := verify.Algorithm(signer.Public()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return signer, nil
}

// ParsePublicKey reads a public key in PKIX PEM form.
func ParsePublicKey(data []byte) (crypto.PublicKey, error) {
	block, err := onePEM(data)
	if err != nil {
		return nil, err
	}
	if block.Type != pemPublic {
		return nil, fmt.Errorf("%w: a PEM block of type %.60q, want %q", ErrForm, block.Type, pemPublic)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if _, err := verify.Algorithm(key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return key, nil
}

// MarshalPublicKey writes a public key in PKIX PEM form.
func MarshalPublicKey(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}), nil
}

// onePEM reads exactly one PEM block.
func onePEM(data []byte) (*pem.Block, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrForm, len(data), MaxBytes)
	}
	block, rest := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%w: no PEM block", ErrForm)
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, fmt.Errorf("%w: more than one PEM block", ErrForm)
	}
	return block, nil
}
