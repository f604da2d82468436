// Package index finds host names and address ranges among up to a million in
// the same time as among ten, without allocating: a hash table of names, keyed by
// whole labels, and one of prefixes, keyed by length. It knows nothing of what
// the ids that it gives out stand for.
package index

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
)

// Names maps host names to ids, which count from 0 in the order of Add, and to
// values. Names of other than 1 to 253 bytes are no names. It is built first and
// only read afterwards; reading is safe for concurrent use.
//
// Layout: the names lie one behind the other in one text, each with "*." in
// front so that a pattern is a part of it too; a name is 6 bytes beside that. A
// slot is 8 bytes: half of the hash and the id, so that a name that is absent is
// almost always told by the slot alone. Tables are at most 3/4 full.
type Names[T any] struct {
	seed  maphash.Seed
	text  strings.Builder
	names []entry[T]
	slots []uint64
	depth [2]uint64 // bit n-1: there is a name of n labels
}

// entry lies beside its value, so that a look-up that finds a name has the value
// in the same line of the cache.
type entry[T any] struct {
	off   uint32
	len   uint8
	value T
}

const prefix = "*."

// NewNames returns an empty table with room for n names.
func NewNames[T any](n int) *Names[T] {
	t := &Names[T]{seed: maphash.MakeSeed(), names: make([]entry[T], 0, n)}
	t.resize(max(8, n+n/3+1))
	return t
}

func (t *Names[T]) resize(least int) {
	size := 1 << bits.Len(uint(least-1))
	t.slots = make([]uint64, size)
	for id := range t.names {
		t.place(maphash.String(t.seed, t.Name(uint32(id))), uint32(id))
	}
}

// place puts an id into the first free slot. A slot is 0 when free, so ids are
// kept with 1 added.
func (t *Names[T]) place(hash uint64, id uint32) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = hash&^math.MaxUint32 | uint64(id+1)
}

// Name returns a name by its id.
func (t *Names[T]) Name(id uint32) string { return t.Pattern(id)[len(prefix):] }

// Pattern returns "*." and a name by its id.
func (t *Names[T]) Pattern(id uint32) string {
	s := t.names[id]
	return t.text.String()[s.off : s.off+uint32(len(prefix))+uint32(s.len)]
}

// Add returns the id of a name, a new one when it is not there yet. It fails
// when the names together exceed 4 GiB.
func (t *Names[T]) Add(name string) (uint32, error) {
	if id, ok := t.Find(name); ok {
		return id, nil
	}
	if len(name) == 0 || len(name) > 253 {
		return 0, fmt.Errorf("index: a name of %d bytes", len(name))
	}
	if uint64(t.text.Len())+uint64(len(prefix)+len(name)) > math.MaxUint32 {
		return 0, fmt.Errorf("index: the names exceed 4 GiB")
	}
	if (len(t.names)+1)*4 > len(t.slots)*3 {
		t.resize(len(t.slots) * 2)
	}
	id := uint32(len(t.names))
	t.names = append(t.names, entry[T]{off: uint32(t.text.Len()), len: uint8(len(name))})
	t.text.WriteString(prefix)
	t.text.WriteString(name)
	t.place(maphash.String(t.seed, name), id)
	labels := strings.Count(name, ".")
	t.depth[labels/64] |= 1 << (labels % 64)
	return id, nil
}

// Freeze drops the room that was kept for more names.
func (t *Names[T]) Freeze() {
	shrink(&t.text)
	t.names = append(make([]entry[T], 0, len(t.names)), t.names...)
}

// shrink drops the room that a builder keeps for more.
func shrink(b *strings.Builder) {
	s := b.String()
	b.Reset()
	b.Grow(len(s))
	b.WriteString(s)
}

// Find returns the id of a name.
func (t *Names[T]) Find(name string) (uint32, bool) {
	hash := maphash.String(t.seed, name)
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			return 0, false
		}
		if (slot^hash)&^math.MaxUint32 == 0 {
			if id := uint32(slot) - 1; t.Name(id) == name {
				return id, true
			}
		}
	}
}

// At returns the value of a name, to be set while building and read afterwards.
func (t *Names[T]) At(id uint32) *T { return &t.names[id].value }

// HasDepth reports whether any name has so many labels.
func (t *Names[T]) HasDepth(labels int) bool {
	labels--
	return labels >= 0 && labels < 128 && t.depth[labels/64]>>(labels%64)&1 != 0
}

// Len returns the number of names.
func (t *Names[T]) Len() int { return len(t.names) }
