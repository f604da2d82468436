// Package trustroot carries the trusted root of the public-good Sigstore
// instance: the certificate authorities, logs and timestamp authorities that a
// keyless signature is checked against when no other root is given.
//
// The file is the target trusted_root.json of Sigstore's update repository as
// release 4.0.2 of the npm package @sigstore/tuf carries it. It knows both logs of
// the instance, of Rekor v1 and v2. It ages: authorities and logs are added over
// time. So its date is part of every report that uses it, and a newer one, or that
// of a private deployment, can be given instead.
package trustroot

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/wallproof/wallproof/internal/canon"
)

//go:embed public-good.json
var publicGood []byte

// PublicGoodDigest is the SHA-256 of the embedded file, in hex.
const PublicGoodDigest = "6494e21ea73fa7ee769f85f57d5a3e6a08725eae1e38c755fc3517c9e6bc0b66"

// PublicGoodDate is the date of the release that the embedded file is from.
var PublicGoodDate = time.Date(2026, time.March, 18, 0, 0, 0, 0, time.UTC)

// MaxBytes bounds a trusted root.
const MaxBytes = 4 << 20

// ErrDigest means that a trusted root is not the one that was asked for.
var ErrDigest = errors.New("the trusted root has another digest than expected")

// PublicGood returns the embedded root's bytes, checked against its digest.
func PublicGood() ([]byte, error) {
	return publicGood, Check(publicGood, PublicGoodDigest)
}

// Check compares data's SHA-256 with a hex digest.
func Check(data []byte, want string) error {
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("%w: sha256:%s, expected sha256:%s", ErrDigest, got, want)
	}
	return nil
}

// Parse reads a trusted root in JSON, strictly.
func Parse(data []byte) (*root.TrustedRoot, error) {
	if err := canon.CheckJSON(data, canon.Limits{Bytes: MaxBytes, Depth: 32}); err != nil {
		return nil, fmt.Errorf("read trusted root: %w", err)
	}
	tr, err := root.NewTrustedRootFromJSON(data)
	if err != nil {
		return nil, fmt.Errorf("read trusted root: %w", err)
	}
	return tr, nil
}
