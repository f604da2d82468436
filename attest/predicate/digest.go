package predicate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// digestPrefix is the one algorithm of all digests in evidence.
const digestPrefix = "sha256:"

// Digest returns "sha256:" and the lower-case hex SHA-256 of data.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// CheckDigest refuses everything but "sha256:" and 64 lower-case hex digits.
func CheckDigest(s string) error {
	h, ok := strings.CutPrefix(s, digestPrefix)
	if b, err := hex.DecodeString(h); !ok || err != nil || len(b) != sha256.Size || strings.ToLower(h) != h {
		return fmt.Errorf("%.100q is not a digest; write sha256: and 64 lower-case hex digits", s)
	}
	return nil
}

// digestHex is the part of a digest that in-toto writes under "sha256".
func digestHex(s string) string { return strings.TrimPrefix(s, digestPrefix) }
