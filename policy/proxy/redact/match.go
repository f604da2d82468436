package redact

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sort"
	"strings"
)

// gram is the most bytes that are looked at in one place, and how many of its first
// a pattern is found by. leastGram is how few of them make do for short patterns:
// with fewer looked at in one place, fewer places have to be.
const (
	gram      = 8
	leastGram = 5
)

// maxStride bounds a class's stride; offsets are bits of a uint16.
const maxStride = 16

// bloomBitsPerGram and two bits a gram leave one in thirty places of random text to
// be looked at further, and roomyBitsPerGram one in a hundred and fifty: it is for tables
// that are small all the same, of roomyBits at most. bloomRoom is about what a core's own
// cache holds: a stride whose table is larger does not pay, down to leastStride.
const (
	bloomBitsPerGram = 10
	roomyBitsPerGram = 24
	roomyBits        = 4 << 20
	bloomRoom        = 8 << 20 // bits
	leastStride      = 4
)

// anchors are bytes that are rare in text and begin what is escaped as a whole.
// Patterns that begin with one have a class of their own, in which only places with
// that byte are looked at.
const anchors = "%\\&"

// classFloors are the least lengths of the classes. A class's stride follows
// from its shortest pattern.
var classFloors = []int{gram + maxStride - 1, gram + 4, gram}

// set is one class of patterns.
type set struct {
	patterns []string // sorted, no two equal
	parent   []int32  // the longest other pattern that is a prefix, or -1
	max      int      // longest pattern
	gram     int      // bytes that are looked at in one place
	stride   int
	anchor   byte     // 0: none
	bloom    []uint64 // two bits of one word a gram
	slots    []slot   // open addressing, half empty; length a power of two
	grams    int      // different ones
	prefixes []prefix // likewise, of first grams
	first    [256]bool
}

// slot says at which offsets patterns hold a gram. Two of one hash share it; a false
// one costs a verification and no more.
type slot struct {
	hash    uint64
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
	classes := make([][]string, len(classFloors)+len(anchors))
	for p := range patterns {
		if a := strings.IndexByte(anchors, p[0]); a >= 0 {
			classes[len(classFloors)+a] = append(classes[len(classFloors)+a], p)
			continue
		}
		for i, floor := range classFloors {
			if len(p) >= floor {
				classes[i] = append(classes[i], p)
				break
			}
		}
	}
	var sets []*set
	for i, c := range classes {
		if len(c) > 0 {
			s := &set{patterns: c}
			if i >= len(classFloors) {
				s.anchor = anchors[i-len(classFloors)]
			}
			s.build()
			sets = append(sets, s)
		}
	}
	return sets
}

func (s *set) build() {
	patterns := s.patterns
	sort.Strings(patterns)
	shortest := len(patterns[0])
	for _, p := range patterns {
		shortest, s.max = min(shortest, len(p)), max(s.max, len(p))
		s.first[p[0]] = true
	}
	s.gram = min(gram, max(leastGram, shortest-leastStride+1))
	s.stride = min(shortest-s.gram+1, maxStride)
	for s.stride > leastStride && len(patterns)*s.stride*bloomBitsPerGram > bloomRoom {
		s.stride--
	}
	if s.anchor != 0 {
		s.gram, s.stride = gram, 1 // of the anchor's places
	}
	s.link()
	s.index()
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

func (s *set) index() {
	s.slots = make([]slot, 1<<bits.Len(uint(len(s.patterns)*4)))
	s.prefixes = make([]prefix, 1<<bits.Len(uint(len(s.patterns)*2)))
	for i, p := range s.patterns {
		for off := range s.stride {
			s.addGram(hash(loadString(p[off:off+s.gram])), 1<<off)
		}
		s.addPrefix(loadString(p), int32(i))
	}
	room := s.grams * roomyBitsPerGram
	if room > roomyBits {
		room = s.grams * bloomBitsPerGram
	}
	s.bloom = make([]uint64, room/64+64)
	for _, p := range s.patterns {
		for off := range s.stride {
			h := hash(loadString(p[off : off+s.gram]))
			w, _ := bits.Mul64(h, uint64(len(s.bloom)))
			s.bloom[w] |= bloomBits(h)
		}
	}
}

// bloomBits are the bits of a gram in its word.
func bloomBits(h uint64) uint64 { return 1<<(h>>29&63) | 1<<(h>>35&63) }

// addGram notes the offsets of a gram.
func (s *set) addGram(h uint64, offsets uint16) {
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		sl := &s.slots[i]
		if sl.offsets == 0 {
			*sl = slot{h, offsets}
			if s.grams++; s.grams*2 > len(s.slots) {
				s.grow()
			}
			return
		}
		if sl.hash == h {
			sl.offsets |= offsets
			return
		}
	}
}

// grow doubles the slots.
func (s *set) grow() {
	old := s.slots
	s.slots, s.grams = make([]slot, 2*len(old)), 0
	for _, sl := range old {
		if sl.offsets != 0 {
			s.addGram(sl.hash, sl.offsets)
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
	if s.anchor != 0 {
		s.scanAnchored(b, found)
		return
	}
	bloom, stride := s.bloom, s.stride
	n := uint64(len(bloom))
	keep := ^uint64(0) >> (8 * (gram - s.gram))
	i := 0
	for ; i+gram <= len(b); i += stride {
		h := hash(load(b[i:]) & keep)
		w, _ := bits.Mul64(h, n)
		if m := bloomBits(h); bloom[w]&m == m && !s.verify(b, i, h, found) {
			return
		}
	}
	for ; i+s.gram <= len(b); i += stride {
		if !s.verify(b, i, hash(loadString(string(b[i:i+s.gram]))), found) {
			return
		}
	}
}

// scanAnchored is scan for patterns that begin with the anchor.
func (s *set) scanAnchored(b []byte, found func(start, end int) bool) {
	n := uint64(len(s.bloom))
	for i := 0; i+gram <= len(b); i++ {
		at := bytes.IndexByte(b[i:], s.anchor)
		if i += at; at < 0 || i+gram > len(b) {
			return
		}
		h := hash(load(b[i:]))
		w, _ := bits.Mul64(h, n)
		if m := bloomBits(h); s.bloom[w]&m == m && !s.verify(b, i, h, found) {
			return
		}
	}
}

// verify looks at every place where a pattern that holds the gram at i would
// begin.
func (s *set) verify(b []byte, i int, h uint64, found func(start, end int) bool) bool {
	mask := uint64(len(s.slots) - 1)
	for j := h & mask; s.slots[j].offsets != 0; j = (j + 1) & mask {
		if s.slots[j].hash != h {
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
