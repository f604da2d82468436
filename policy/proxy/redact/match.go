package redact

import (
	"encoding/binary"
	"math/bits"
	"sort"
	"strings"
)

// gram is the number of bytes that are looked at in one place.
const gram = 8

// maxStride bounds a class's stride; offsets are bits of a uint16.
const maxStride = 16

// manyPatterns is where a smaller stride begins to pay: its table is smaller.
const manyPatterns = 20000

// classFloors are the least lengths of the classes. A class's stride follows
// from its shortest pattern.
var classFloors = []int{gram + maxStride - 1, gram + 4, gram}

// set is one class of patterns.
type set struct {
	patterns []string // sorted, no two equal
	parent   []int32  // the longest other pattern that is a prefix, or -1
	max      int      // longest pattern
	stride   int
	bloom    []uint64 // one bit a gram
	shift    uint     // of the hash, to index a bit of bloom
	slots    []slot   // open addressing, half empty; length a power of two
	prefixes []prefix // likewise, of first grams
	first    [256]bool
}

// slot says at which offsets patterns hold a gram. The tag is a part of its
// hash; a false one costs a verification and no more.
type slot struct {
	tag     uint32
	offsets uint16 // bit i: some pattern has the gram at offset i; 0 is free
}

// prefix is the range of sorted patterns that begin with a gram.
type prefix struct {
	gram   uint64
	lo, hi int32 // lo == hi is free
}

const hashFactor = 0x9E3779B97F4A7C15

func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func loadString(s string) uint64 {
	var b [gram]byte
	copy(b[:], s)
	return load(b[:])
}

func hash(v uint64) uint64 {
	h := v * hashFactor
	return h ^ h>>29
}

// compile sorts patterns into classes.
func compile(patterns map[string]bool) []*set {
	classes := make([][]string, len(classFloors))
	for p := range patterns {
		for i, floor := range classFloors {
			if len(p) >= floor {
				classes[i] = append(classes[i], p)
				break
			}
		}
	}
	var sets []*set
	for _, c := range classes {
		if len(c) > 0 {
			sets = append(sets, newSet(c))
		}
	}
	return sets
}

func newSet(patterns []string) *set {
	sort.Strings(patterns)
	s := &set{patterns: patterns}
	shortest := len(patterns[0])
	for _, p := range patterns {
		shortest, s.max = min(shortest, len(p)), max(s.max, len(p))
		s.first[p[0]] = true
	}
	s.stride = min(shortest-gram+1, maxStride)
	if len(patterns) > manyPatterns {
		s.stride = min(s.stride, maxStride/2)
	}
	s.link()
	s.index()
	return s
}

// link finds each pattern's parent: the patterns on the stack are prefixes of
// one another.
func (s *set) link() {
	s.parent = make([]int32, len(s.patterns))
	var stack []int32
	for i, p := range s.patterns {
		for len(stack) > 0 && !strings.HasPrefix(p, s.patterns[stack[len(stack)-1]]) {
			stack = stack[:len(stack)-1]
		}
		s.parent[i] = -1
		if len(stack) > 0 {
			s.parent[i] = stack[len(stack)-1]
		}
		stack = append(stack, int32(i))
	}
}

// bloomBitsPerGram keeps the share of set bits near one in sixteen.
const bloomBitsPerGram = 16

func (s *set) index() {
	grams := len(s.patterns) * s.stride
	bloomLog := max(13, min(26, bits.Len(uint(grams*bloomBitsPerGram))))
	s.bloom = make([]uint64, 1<<(bloomLog-6))
	s.shift = uint(64 - bloomLog)
	s.slots = make([]slot, 1<<bits.Len(uint(grams*2)))
	s.prefixes = make([]prefix, 1<<bits.Len(uint(len(s.patterns)*2)))
	for i, p := range s.patterns {
		for off := range s.stride {
			s.addGram(loadString(p[off:]), off)
		}
		s.addPrefix(loadString(p), int32(i))
	}
}

func (s *set) addGram(v uint64, off int) {
	h := hash(v)
	bit := h >> s.shift
	s.bloom[bit>>6] |= 1 << (bit & 63)
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		sl := &s.slots[i]
		if sl.offsets == 0 || sl.tag == uint32(h>>32) {
			sl.tag = uint32(h >> 32)
			sl.offsets |= 1 << off
			return
		}
	}
}

func (s *set) addPrefix(v uint64, i int32) {
	mask := uint64(len(s.prefixes) - 1)
	for j := hash(v) & mask; ; j = (j + 1) & mask {
		p := &s.prefixes[j]
		if p.lo == p.hi {
			*p = prefix{v, i, i + 1}
			return
		}
		if p.gram == v {
			p.hi = i + 1 // sorted, so the range grows at its end
			return
		}
	}
}

// scan calls found for occurrences in b until it returns false. Of several
// that begin in one place only the longest is reported, and one place may be
// reported more than once.
func (s *set) scan(b []byte, found func(start, end int) bool) {
	bloom, shift, stride := s.bloom, s.shift, s.stride
	for i := 0; i+gram <= len(b); i += stride {
		h := hash(load(b[i:]))
		bit := h >> shift
		if bloom[bit>>6]&(1<<(bit&63)) != 0 && !s.verify(b, i, h, found) {
			return
		}
	}
}

// verify looks at every place where a pattern that holds the gram at i would
// begin.
func (s *set) verify(b []byte, i int, h uint64, found func(start, end int) bool) bool {
	mask := uint64(len(s.slots) - 1)
	for j := h & mask; s.slots[j].offsets != 0; j = (j + 1) & mask {
		if s.slots[j].tag != uint32(h>>32) {
			continue
		}
		for offs := s.slots[j].offsets; offs != 0; offs &= offs - 1 {
			start := i - bits.TrailingZeros16(offs)
			if start < 0 {
				break
			}
			if n := s.longestAt(b[start:]); n > 0 && !found(start, start+n) {
				return false
			}
		}
		return true
	}
	return true
}

// longestAt returns the length of the longest pattern that b begins with.
func (s *set) longestAt(b []byte) int {
	lo, hi, ok := s.prefixRange(b)
	if !ok {
		return 0
	}
	// The last pattern that is not after b has every pattern that b begins
	// with among itself and its parents.
	n := sort.Search(hi-lo, func(k int) bool { return compare(s.patterns[lo+k], b) > 0 })
	for p := int32(lo + n - 1); n > 0 && p >= 0; p = s.parent[p] {
		if pat := s.patterns[p]; len(pat) <= len(b) && string(b[:len(pat)]) == pat {
			return len(pat)
		}
	}
	return 0
}

func (s *set) prefixRange(b []byte) (lo, hi int, ok bool) {
	if len(b) < gram {
		return 0, 0, false
	}
	v := load(b)
	mask := uint64(len(s.prefixes) - 1)
	for j := hash(v) & mask; ; j = (j + 1) & mask {
		p := &s.prefixes[j]
		if p.lo == p.hi {
			return 0, 0, false
		}
		if p.gram == v {
			return int(p.lo), int(p.hi), true
		}
	}
}

// compare orders a pattern against the text's first bytes: only as many as the
// pattern has.
func compare(pattern string, b []byte) int {
	if len(b) > len(pattern) {
		b = b[:len(pattern)]
	}
	return strings.Compare(pattern, string(b))
}

// tail returns the first place from which on b may be the beginning of a
// pattern, len(b) if there is none.
func (s *set) tail(b []byte) int {
	for i := max(0, len(b)-s.max+1); i < len(b); i++ {
		if s.first[b[i]] && s.begins(b[i:]) {
			return i
		}
	}
	return len(b)
}

// begins says whether some pattern is longer than t and begins with it.
func (s *set) begins(t []byte) bool {
	lo, hi := 0, len(s.patterns)
	if len(t) >= gram {
		var ok bool
		if lo, hi, ok = s.prefixRange(t); !ok {
			return false
		}
	}
	for i := lo + sort.Search(hi-lo, func(k int) bool { return s.patterns[lo+k] > string(t) }); i < hi; {
		return strings.HasPrefix(s.patterns[i], string(t))
	}
	return false
}
