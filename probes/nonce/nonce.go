// Package nonce is how the two sides of the evidence are joined: the nonce that
// an attempt carries outwards, the proof that only a witness can answer it
// with, and the destination address of attempts that carry no payload. It is
// pure: the battery, the probe, the witnesses and the verifier compute the same
// values from the same bytes.
//
// # Format
//
//	nonce  = "w" + 24 characters of lower-case base32, unpadded: the first 120
//	         bits of HMAC-SHA-256(key, run 0x00 technique 0x00 variant 0x00 phase)
//	proof  = the first 16 hex characters of HMAC-SHA-256(key, "proof" 0x00 nonce)
//	answer = "wallproof-witness:" + proof
//
// A nonce is letters and digits only, begins with a letter and is a valid DNS
// label; it is compared without regard to case, because resolvers change it.
package nonce

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"net/netip"
	"strings"
)

const (
	// Length is the number of characters of a nonce.
	Length = 25
	// ProofLength is the number of characters of a proof.
	ProofLength = 16
	// AnswerPrefix is what stands before the proof in everything that a witness
	// sends back.
	AnswerPrefix = "wallproof-witness:"

	maxFound = 64 // nonces taken from one message
)

// Phases, the last part of a nonce's derivation.
const (
	PhaseControl = "control"
	PhaseAttack  = "attack"
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// New derives the nonce of one technique variant in one phase of a run.
func New(key []byte, run, technique, variant, phase string) string {
	sum := mac(key, run, "\x00", technique, "\x00", variant, "\x00", phase)
	return "w" + encoding.EncodeToString(sum[:15])
}

// Proof is the witness's answer to a nonce, without AnswerPrefix.
func Proof(key []byte, nonce string) string {
	sum := mac(key, "proof\x00", nonce)
	return hex.EncodeToString(sum[:])[:ProofLength]
}

// mac is HMAC-SHA-256 (RFC 2104) of what the parts are together. A verifier derives a
// hundred nonces a packet; crypto/hmac, with which the test compares it, allocates
// three states for each.
func mac(key []byte, parts ...string) [sha256.Size]byte {
	var room [sha256.BlockSize + 256]byte
	if len(key) > sha256.BlockSize {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	copy(room[:], key)
	for i := range sha256.BlockSize {
		room[i] ^= 0x36
	}
	inner := room[:sha256.BlockSize]
	for _, p := range parts {
		inner = append(inner, p...)
	}
	sum := sha256.Sum256(inner)
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(outer[:], key)
	for i := range sha256.BlockSize {
		outer[i] ^= 0x5c
	}
	copy(outer[sha256.BlockSize:], sum[:])
	return sha256.Sum256(outer[:])
}

// Answer is what a witness sends back to a nonce.
func Answer(key []byte, nonce string) string { return AnswerPrefix + Proof(key, nonce) }

// Valid reports whether s is exactly one nonce, in lower case.
func Valid(s string) bool {
	if len(s) != Length || s[0] != 'w' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !inAlphabet(s[i]) {
			return false
		}
	}
	return true
}

// Find returns the nonces in b, in lower case and in order of appearance,
// without repeats, at most 64. A nonce stands alone: the bytes beside it are no
// letters or digits, so that part of a longer word (a canary) is not taken for
// one.
func Find(b []byte) []string {
	var out []string
	seen := map[string]bool{}
	for start := 0; start < len(b) && len(out) < maxFound; {
		if !isWord(b[start]) {
			start++
			continue
		}
		end := start
		for end < len(b) && isWord(b[end]) {
			end++
		}
		if end-start == Length {
			if s := strings.ToLower(string(b[start:end])); Valid(s) && !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
		start = end
	}
	return out
}

// FindProof returns the proof in a witness's answer, or "" when there is none.
func FindProof(b []byte) string {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(AnswerPrefix))
		if i < 0 {
			return ""
		}
		at += i + len(AnswerPrefix)
		if len(b)-at < ProofLength {
			return ""
		}
		if p := b[at : at+ProofLength]; isLowerHex(p) {
			return string(p)
		}
	}
}

// Outside4 and Outside6 are where attempts without payload go that stand for the
// open internet: the attacker's addresses, one a nonce.
var (
	Outside4 = netip.MustParsePrefix("99.64.0.0/10")
	Outside6 = netip.MustParsePrefix("2a0d:5600::/32")
)

// AddrFor returns the address inside prefix that belongs to a nonce: an attempt
// that carries no payload goes there, so that the destination alone says whose
// it was. The first and last address of the prefix, and addresses whose last
// byte is 0 or 255, are left out where the prefix is large enough to.
func AddrFor(nonce string, prefix netip.Prefix) netip.Addr {
	prefix = prefix.Masked()
	base := prefix.Addr()
	host := base.BitLen() - prefix.Bits()
	sum := sha256.Sum256([]byte("wallproof.addr/v1\x00" + nonce))
	value := new(big.Int).SetBytes(sum[:])
	value.Mod(value, new(big.Int).Lsh(big.NewInt(1), uint(host)))
	if host >= 8 {
		low := binary.BigEndian.Uint64(sum[8:16])%254 + 1
		value.Rsh(value, 8).Lsh(value, 8).Or(value, new(big.Int).SetUint64(low))
	}
	value.Or(value, new(big.Int).SetBytes(base.AsSlice()))
	raw := value.FillBytes(make([]byte, base.BitLen()/8))
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}

func inAlphabet(c byte) bool { return 'a' <= c && c <= 'z' || '2' <= c && c <= '7' }

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isLowerHex(b []byte) bool {
	for _, c := range b {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}
