// Package canary makes and finds canaries: strings that stand in for a secret
// during a run and that occur nowhere else, so that finding one is proof that
// the secret would have been obtained. It is pure, and shared by the probe, the
// witnesses and the redaction proof, so that all three agree on what finding
// means.
//
// # Format
//
//	canary   = "wpcanary" random checksum
//	random   = 26 characters of a-z, 2-7 (130 bits)
//	checksum = 6 characters: the first 30 bits, in the same alphabet, of
//	           SHA-256("wallproof.canary/v1" 0x00 random)
//
// So every canary matches wpcanary[a-z2-7]{32}. The checksum is what keeps a
// look-alike (the prefix in a program's own string table, a cut-off copy run
// together with other text) from ever being reported: a match is a canary that
// New or Derive made.
//
// Observations name a canary by its Digest alone, never in clear.
package canary

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

const (
	// Length is the number of bytes of every canary.
	Length = prefixLength + bodyLength

	prefixLength   = 8
	bodyLength     = randomLength + checksumLength
	randomLength   = 26
	checksumLength = 6
	checksumDomain = "wallproof.canary/v1\x00"
	alphabet       = "abcdefghijklmnopqrstuvwxyz234567"
)

// prefix is spelled in two halves so that no program that links this package
// carries it in one piece.
var prefix = "wpca" + string([]byte{'n', 'a', 'r', 'y'})

// New returns a fresh canary made of randomness from r (crypto/rand.Reader
// outside tests). The error is r's.
func New(r io.Reader) (string, error) {
	var raw [randomLength]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return "", fmt.Errorf("draw randomness for a canary: %w", err)
	}
	return assemble(raw[:]), nil
}

// Derive returns the canary that belongs to a seed: the same seed gives the
// same canary. It is for fixtures and for canaries that two processes must
// agree on; the seed is as secret as the canary.
func Derive(seed []byte) string {
	sum := sha256.Sum256(append([]byte("wallproof.canary/v1 seed\x00"), seed...))
	return assemble(sum[:randomLength])
}

// assemble builds a canary of which each random character is the low five bits
// of one byte.
func assemble(raw []byte) string {
	out := make([]byte, 0, Length)
	out = append(out, prefix...)
	for _, b := range raw {
		out = append(out, alphabet[b&31])
	}
	out = append(out, checksum(out[prefixLength:])...)
	return string(out)
}

// checksum returns the six characters that belong to the random part.
func checksum(random []byte) []byte {
	sum := sha256.Sum256(append([]byte(checksumDomain), random...))
	bits := uint64(sum[0])<<32 | uint64(sum[1])<<24 | uint64(sum[2])<<16 | uint64(sum[3])<<8 | uint64(sum[4])
	out := make([]byte, checksumLength)
	for i := range out {
		out[i] = alphabet[bits>>(35-5*i)&31]
	}
	return out
}

// Valid reports whether s is exactly one canary.
func Valid(s string) bool { return len(s) == Length && validAt([]byte(s), 0) }

// validAt reports whether a canary begins at b[at:].
func validAt(b []byte, at int) bool {
	if len(b)-at < Length || string(b[at:at+prefixLength]) != prefix {
		return false
	}
	body := b[at+prefixLength : at+Length]
	for _, c := range body {
		if !inAlphabet(c) {
			return false
		}
	}
	return string(checksum(body[:randomLength])) == string(body[randomLength:])
}

func inAlphabet(c byte) bool { return 'a' <= c && c <= 'z' || '2' <= c && c <= '7' }

// Digest is how a canary is named in an observation: the lower-case hex SHA-256
// of its bytes.
func Digest(c string) string {
	sum := sha256.Sum256([]byte(c))
	return hex.EncodeToString(sum[:])
}
