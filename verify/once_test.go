package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// counting counts how often a signature is computed.
type counting struct {
	signature.Verifier
	n int
}

func (c *counting) VerifySignature(sig, message io.Reader, opts ...signature.VerifyOption) error {
	c.n++
	return c.Verifier.VerifySignature(sig, message, opts...)
}

// TestOnceComputes: a signature that comes with the library's context is computed
// once; one that comes with its own digest or hash each time.
func TestOnceComputes(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.LoadSignerVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("message")
	sig, err := signer.SignMessage(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(message)
	for name, c := range map[string]struct {
		opts []signature.VerifyOption
		want int
	}{
		"none":    {nil, 1},
		"context": {[]signature.VerifyOption{options.WithContext(t.Context())}, 1},
		"digest":  {[]signature.VerifyOption{options.WithDigest(digest[:])}, 3},
		"hash":    {[]signature.VerifyOption{options.WithContext(t.Context()), options.WithCryptoSignerOpts(crypto.SHA256)}, 3},
	} {
		inner := &counting{Verifier: signer}
		o := &once{Verifier: inner}
		for range 3 {
			if err := o.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message), c.opts...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if inner.n != c.want {
			t.Errorf("%s: computed %d times, want %d", name, inner.n, c.want)
		}
	}
}

// TestOnce: what was accepted is accepted again, and nothing else is.
func TestOnce(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.LoadSignerVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("message")
	sig, err := signer.SignMessage(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	o := &once{Verifier: signer}
	check := func(sig, message []byte) error {
		return o.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message))
	}
	other := bytes.Clone(sig)
	other[len(other)-1] ^= 1
	for range 2 {
		if check(other, message) == nil || check(sig, []byte("massage")) == nil || check(nil, nil) == nil || check(append(bytes.Clone(sig), message[0]), message[1:]) == nil {
			t.Error("another signature or message is accepted")
		}
		if err := check(sig, message); err != nil {
			t.Error(err)
		}
	}
}
