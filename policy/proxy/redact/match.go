package redact

import (
	"encoding/binary"
	"math/bits"
	"sort"
	"strings"
)

// gram is the most bytes that are looked at in one place, and what patterns are
// sorted by.
const gram = 8

// maxStride bounds a class's stride; offsets are bits of a uint16.
const maxStride = 16

// bloomBitsPerGram and two bits a gram leave one in thirty places of random text to
// be looked at further; a small table has more. bloomRoom is about what a core's own
// cache holds: a stride whose table is larger does not pay, down to leastStride.
const (
	bloomBitsPerGram = 10
	bloomBitsAtBest  = 32
	bloomSmall       = 1 << 18 // bits
	bloomRoom        = 8 << 20 // bits
	leastStride      = 4
)

// classes are the least lengths of patterns, and the length of their grams. A class's
// stride follows from its shortest pattern: the shorter the gram the longer the
// stride, and the more often a gram is met by chance.
var classes = []struct{ floor, gram int }{{gram + maxStride - 1, gram}, {16, 6}, {12, 5}, {gram, 5}}

// set is one class of patterns.
type set struct {
	patterns []string // sorted, no two equal
	parent   []int32  // the longest other pattern that is a prefix, or -1
	max      int      // longest pattern
	stride   int
	gram     int // bytes looked at in one place
	forms    Forms
	hidden   map[string]bool // not looked for as they are
	bloom    []uint64        // two bits of one word a gram
	slots    []slot          // open addressing, half empty; length a power of two
	grams    int             // different ones
	prefixes []prefix        // likewise, of first grams
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

// compile sorts patterns into classes. What is hidden is not found where it stands as
// it is.
func compile(patterns map[string]bool, forms Forms, hidden map[string]bool) []*set {
	sorted := make([][]string, len(classes))
	for p := range patterns {
		for i, c := range classes {
			if len(p) >= c.floor {
				sorted[i] = append(sorted[i], p)
				break
			}
		}
	}
	var sets []*set
	for i, c := range sorted {
		if len(c) > 0 {
			s := &set{patterns: c, gram: classes[i].gram, forms: forms, hidden: hidden}
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
	s.stride = min(shortest-s.gram+1, maxStride)
	for s.stride > leastStride && len(patterns)*s.stride*bloomBitsPerGram > bloomRoom {
		s.stride--
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
			s.addGram(s.gramHash(p, off), 1<<off)
		}
		s.addPrefix(loadString(p), int32(i))
	}
	perGram := min(max(bloomSmall/s.grams, bloomBitsPerGram), bloomBitsAtBest)
	s.bloom = make([]uint64, s.grams*perGram/64+64)
	for _, p := range s.patterns {
		for off := range s.stride {
			h := s.gramHash(p, off)
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

// gramHash is the hash of p's gram at off.
func (s *set) gramHash(p string, off int) uint64 {
	return hash(loadString(p[off:off+s.gram]) << s.shift())
}

// shift drops from eight bytes those that stand before the gram.
func (s *set) shift() int { return 8 * (gram - s.gram) }

// places calls hit with each place of b at which a pattern may begin that has one of
// its grams where b is looked at, until it returns false.
func (s *set) places(b []byte, hit func(start int) bool) bool {
	// A gram is read with the bytes before it, so that none reaches behind b. The first
	// place is within the first stride, since no pattern is shorter than eight bytes.
	bloom, stride, drop := s.bloom, s.stride, s.shift()
	n := uint64(len(bloom))
	for end := gram; end <= len(b); end += stride {
		h := hash(load(b[end-gram:]) >> drop << drop)
		w, _ := bits.Mul64(h, n)
		if m := bloomBits(h); bloom[w]&m == m && !s.starts(end-s.gram, h, hit) {
			return false
		}
	}
	return true
}

// starts calls hit with the places at which patterns that hold the gram at i begin.
func (s *set) starts(i int, h uint64, hit func(start int) bool) bool {
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
			if !hit(start) {
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
	return s.longestIn(lo, hi, b)
}

// longestIn is longestAt, where the patterns that begin as b does are known.
func (s *set) longestIn(lo, hi int, b []byte) int {
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
