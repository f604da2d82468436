package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature"
)

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
