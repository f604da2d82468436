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

// Names maps host names to ids, which count from 0 in the order of Add. Names
// of other than 1 to 253 bytes are no names. It is built first and only read
// afterwards; reading is safe for concurrent use.
//
// Layout: the names lie one behind the other in one text, each with "*." in
// front so that a pattern is a part of it too; a name is 6 bytes beside that. A
// slot is 8 bytes: half of the hash and the id, so that a name that is absent is
// almost always told by the slot alone. Tables are at most 3/4 full.
type Names struct {
	seed  maphash.Seed
	text  strings.Builder
	names []span
	slots []uint64
	depth [2]uint64 // bit n-1: there is a name of n labels
}

type span struct {
	off uint32
	len uint8
}

const prefix = "*."

// NewNames returns an empty table with room for n names.
func NewNames(n int) *Names {
	t := &Names{seed: maphash.MakeSeed(), names: make([]span, 0, n)}
	t.resize(max(8, n+n/3+1))
	return t
}

func (t *Names) resize(least int) {
	size := 1 << bits.Len(uint(least-1))
	t.slots = make([]uint64, size)
	for id := range t.names {
		t.place(maphash.String(t.seed, t.Name(uint32(id))), uint32(id))
	}
}

// place puts an id into the first free slot. A slot is 0 when free, so ids are
// kept with 1 added.
func (t *Names) place(hash uint64, id uint32) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = hash&^math.MaxUint32 | uint64(id+1)
}

// Name returns a name by its id.
func (t *Names) Name(id uint32) string { return t.Pattern(id)[len(prefix):] }

// Pattern returns "*." and a name by its id.
func (t *Names) Pattern(id uint32) string {
	s := t.names[id]
	return t.text.String()[s.off : s.off+uint32(len(prefix))+uint32(s.len)]
}

// Add returns the id of a name, a new one when it is not there yet. It fails
// when the names together exceed 4 GiB.
func (t *Names) Add(name string) (uint32, error) {
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
	t.names = append(t.names, span{uint32(t.text.Len()), uint8(len(name))})
	t.text.WriteString(prefix)
	t.text.WriteString(name)
	t.place(maphash.String(t.seed, name), id)
	labels := strings.Count(name, ".")
	t.depth[labels/64] |= 1 << (labels % 64)
	return id, nil
}

// Freeze drops the room that was kept for more names.
func (t *Names) Freeze() {
	shrink(&t.text)
	t.names = append(make([]span, 0, len(t.names)), t.names...)
}

// shrink drops the room that a builder keeps for more.
func shrink(b *strings.Builder) {
	s := b.String()
	b.Reset()
	b.Grow(len(s))
	b.WriteString(s)
}

// Find returns the id of a name.
func (t *Names) Find(name string) (uint32, bool) {
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

// HasDepth reports whether any name has so many labels.
func (t *Names) HasDepth(labels int) bool {
	labels--
	return labels >= 0 && labels < 128 && t.depth[labels/64]>>(labels%64)&1 != 0
}

// Len returns the number of names.
func (t *Names) Len() int { return len(t.names) }
