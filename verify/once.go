package verify

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"io"

	"github.com/sigstore/sigstore/pkg/signature"
)

// once is a verifier of one bundle. It remembers the signature that it accepted,
// so that the library's verification as a whole does not compute it anew.
type once struct {
	signature.Verifier
	accepted [2][sha256.Size]byte // of signature and message
	good     bool
}

// maxSignature bounds what is read as a signature.
const maxSignature = 1 << 20

// VerifySignature verifies as the verifier within does.
func (o *once) VerifySignature(sig, message io.Reader, opts ...signature.VerifyOption) error {
	s, err := readAll(io.LimitReader(sig, maxSignature), sig)
	if err != nil {
		return err
	}
	m, err := readAll(message, message)
	if err != nil {
		return err
	}
	both := [2][sha256.Size]byte{sha256.Sum256(s), sha256.Sum256(m)}
	plain := changeNothing(opts)
	if o.good && o.accepted == both && plain {
		return nil
	}
	if err := o.Verifier.VerifySignature(bytes.NewReader(s), bytes.NewReader(m), opts...); err != nil {
		return err
	}
	if plain {
		o.accepted, o.good = both, true
	}
	return nil
}

// readAll reads r to its end. from tells how much is there, where it knows.
func readAll(r, from io.Reader) ([]byte, error) {
	b := bytes.NewBuffer(nil)
	if known, ok := from.(interface{ Len() int }); ok {
		b.Grow(min(known.Len(), maxSignature) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// changeNothing tells whether options leave it open neither what is verified nor how.
// The library hands over a context with every signature.
func changeNothing(opts []signature.VerifyOption) bool {
	var (
		digest  []byte
		hash    crypto.SignerOpts
		remote  bool
		version string
	)
	for _, o := range opts {
		o.ApplyDigest(&digest)
		o.ApplyCryptoSignerOpts(&hash)
		o.ApplyRemoteVerification(&remote)
		o.ApplyKeyVersion(&version)
	}
	return digest == nil && hash == nil && !remote && version == ""
}
