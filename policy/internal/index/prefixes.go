package index

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Prefixes maps ranges of addresses to ids, which count from 0 in the order of
// Add. It is built first and only read afterwards; reading is safe for concurrent
// use.
type Prefixes struct {
	four     table[key4]
	six      table[key6]
	lengths4 uint64    // bit n: there is a prefix of length n
	lengths6 [3]uint64 //
	n        uint32
}

type key4 struct {
	addr uint32
	bits uint8
}

func (k key4) hash() uint64 { return mix(uint64(k.addr)<<8 | uint64(k.bits)) }

type key6 struct {
	hi, lo uint64
	bits   uint8
}

func (k key6) hash() uint64 { return mix(mix(k.hi^uint64(k.bits)<<56) + k.lo) }

// mix spreads a number over the upper bits (splitmix64's constants).
func mix(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// key is a prefix as a table keeps it.
type key interface {
	comparable
	hash() uint64
}

// table is a hash table with open addressing, at most 3/4 full. A run-time map
// takes twice as long for such small keys.
type table[K key] struct {
	slots []slot[K]
	n     int
}

// slot is free when id is 0: ids are kept with 1 added.
type slot[K key] struct {
	key K
	id  uint32
}

func (t *table[K]) find(k K) (id uint32, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := uint64(len(t.slots) - 1)
	for i := k.hash() & mask; t.slots[i].id != 0; i = (i + 1) & mask {
		if t.slots[i].key == k {
			return t.slots[i].id - 1, true
		}
	}
	return 0, false
}

// add puts in a key that is not there.
func (t *table[K]) add(k K, id uint32) {
	if (t.n+1)*4 > len(t.slots)*3 {
		old := t.slots
		t.slots = make([]slot[K], max(8, 2*len(old)))
		for _, s := range old {
			if s.id != 0 {
				t.place(s)
			}
		}
	}
	t.n++
	t.place(slot[K]{k, id + 1})
}

func (t *table[K]) place(s slot[K]) {
	mask := uint64(len(t.slots) - 1)
	i := s.key.hash() & mask
	for t.slots[i].id != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// NewPrefixes returns an empty table.
func NewPrefixes() *Prefixes { return &Prefixes{} }

// Add returns the id of a masked prefix, a new one when it is not there yet.
func (t *Prefixes) Add(p netip.Prefix) uint32 {
	if p.Addr().Is4() {
		k := key4{addr4(p.Addr()), uint8(p.Bits())}
		id, ok := t.four.find(k)
		if !ok {
			id = t.n
			t.n++
			t.four.add(k, id)
			t.lengths4 |= 1 << p.Bits()
		}
		return id
	}
	hi, lo := addr6(p.Addr())
	k := key6{hi, lo, uint8(p.Bits())}
	id, ok := t.six.find(k)
	if !ok {
		id = t.n
		t.n++
		t.six.add(k, id)
		t.lengths6[p.Bits()/64] |= 1 << (p.Bits() % 64)
	}
	return id
}

// Len returns the number of prefixes.
func (t *Prefixes) Len() int { return int(t.n) }

// Find returns the longest prefix that contains a and is at most most bits
// long. ok is false when there is none.
func (t *Prefixes) Find(a netip.Addr, most int) (id uint32, length int, ok bool) {
	if a.Is4() {
		return t.find4(addr4(a), most)
	}
	return t.find6(a, most)
}

func (t *Prefixes) find4(v uint32, most int) (uint32, int, bool) {
	if most < 0 {
		return 0, 0, false
	}
	for left := t.lengths4 & (1<<(min(most, 32)+1) - 1); left != 0; {
		n := bits.Len64(left) - 1
		left &^= 1 << n
		if id, ok := t.four.find(key4{v & mask32(n), uint8(n)}); ok {
			return id, n, true
		}
	}
	return 0, 0, false
}

func (t *Prefixes) find6(a netip.Addr, most int) (uint32, int, bool) {
	hi, lo := addr6(a)
	for n := min(most, 128); n >= 0; n-- {
		word := t.lengths6[n/64] << (63 - n%64) >> (63 - n%64)
		if word == 0 {
			n -= n % 64 // go on with the next word down
			continue
		}
		n = n/64*64 + bits.Len64(word) - 1
		h, l := mask128(hi, lo, n)
		if id, ok := t.six.find(key6{h, l, uint8(n)}); ok {
			return id, n, true
		}
	}
	return 0, 0, false
}

func addr4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func addr6(a netip.Addr) (hi, lo uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

func mask32(n int) uint32 { return ^uint32(0) << (32 - n) }

func mask128(hi, lo uint64, n int) (uint64, uint64) {
	if n >= 64 {
		return hi, lo & (^uint64(0) << (128 - n))
	}
	return hi & (^uint64(0) << (64 - n)), 0
}
