package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"math/bits"
)

// Hash is a node of the Merkle tree of RFC 6962, section 2.1, with SHA-256.
type Hash [sha256.Size]byte

// String writes the hash in lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) || hex.EncodeToString(b) != s {
		return Hash{}, errors.New("not a SHA-256 in lower-case hex")
	}
	return Hash(b), nil
}

// Prefixes that keep leaves and inner nodes apart (RFC 6962, 2.1).
const (
	leafPrefix = 0x00
	nodePrefix = 0x01
)

// LeafHash is the hash of one line, without its LF, as a leaf.
func LeafHash(line []byte) Hash {
	d := sha256.New()
	d.Write([]byte{leafPrefix})
	d.Write(line)
	var h Hash
	d.Sum(h[:0])
	return h
}

func nodeHash(l, r Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = nodePrefix
	copy(b[1:], l[:])
	copy(b[1+len(l):], r[:])
	return sha256.Sum256(b[:])
}

// Tree computes a tree head over lines that arrive one by one, in memory that
// grows with the logarithm of their number. The zero value is an empty tree.
type Tree struct {
	size  uint64
	peaks []Hash    // of the complete subtrees, largest first
	hash  hash.Hash // of a leaf, used again and again
}

// Append adds a line, without its LF.
func (t *Tree) Append(line []byte) {
	if t.hash == nil {
		t.hash = sha256.New()
	}
	t.hash.Reset()
	t.hash.Write(leafMark[:])
	t.hash.Write(line)
	var h Hash
	t.hash.Sum(h[:0])
	t.AppendLeaf(h)
}

var leafMark = [1]byte{leafPrefix}

// AppendLeaf adds a line by its leaf hash.
func (t *Tree) AppendLeaf(h Hash) {
	t.peaks = append(t.peaks, h)
	for n := bits.TrailingZeros64(t.size + 1); n > 0; n-- {
		k := len(t.peaks)
		t.peaks = append(t.peaks[:k-2], nodeHash(t.peaks[k-2], t.peaks[k-1]))
	}
	t.size++
}

// Size is the number of lines.
func (t *Tree) Size() int64 { return int64(t.size) }

// Root is the tree head. Of an empty tree it is the hash of nothing.
func (t *Tree) Root() Hash {
	if len(t.peaks) == 0 {
		return sha256.Sum256(nil)
	}
	h := t.peaks[len(t.peaks)-1]
	for i := len(t.peaks) - 2; i >= 0; i-- {
		h = nodeHash(t.peaks[i], h)
	}
	return h
}

// ErrIndex is returned for a line number outside the tree.
var ErrIndex = errors.New("manifest: no such line")

// Prove returns the audit path of leaf i among leaves (RFC 6962, 2.1.1), from
// the leaf upwards.
func Prove(leaves []Hash, i int64) ([]Hash, error) {
	if i < 0 || i >= int64(len(leaves)) {
		return nil, ErrIndex
	}
	return path(leaves, i), nil
}

func path(leaves []Hash, i int64) []Hash {
	n := int64(len(leaves))
	if n <= 1 {
		return nil
	}
	k := split(n)
	if i < k {
		return append(path(leaves[:k], i), subtree(leaves[k:]))
	}
	return append(path(leaves[k:], i-k), subtree(leaves[:k]))
}

func subtree(leaves []Hash) Hash {
	var t Tree
	for _, l := range leaves {
		t.AppendLeaf(l)
	}
	return t.Root()
}

// split is the largest power of two below n.
func split(n int64) int64 { return 1 << (bits.Len64(uint64(n-1)) - 1) }

// Included reports whether leaf is line i of the tree of n lines with this head
// (RFC 9162, 2.1.3.2).
func Included(root, leaf Hash, i, n int64, proof []Hash) bool {
	if i < 0 || i >= n || len(proof) > 64 {
		return false
	}
	fn, sn, r := uint64(i), uint64(n-1), leaf
	for _, p := range proof {
		if sn == 0 {
			return false
		}
		if fn&1 == 1 || fn == sn {
			r = nodeHash(p, r)
			for fn&1 == 0 && fn != 0 {
				fn >>= 1
				sn >>= 1
			}
		} else {
			r = nodeHash(r, p)
		}
		fn >>= 1
		sn >>= 1
	}
	return sn == 0 && r == root
}
