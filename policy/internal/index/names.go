// Package index finds host names and address ranges among up to a million in
// the same time as among ten, without allocating: a hash table of names, keyed by
// whole labels, and one of prefixes, keyed by length. It knows nothing of what
// the ids that it gives out stand for.
package index

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"strings"
)

// Names maps host names to ids, which grow in the order of Add, and to values.
// Names of other than 1 to 253 bytes are no names. It is built first and only read
// afterwards; reading is safe for concurrent use.
//
// Layout: the names lie one behind the other in one text, each behind its length and
// "*.", so that a pattern is a part of it too; an id is the place in that text. A slot
// holds half of the hash, the id and the value, so that a name that is absent is almost
// always told by the slot alone, and one that is there costs a line of the slots and one
// of the text: what lies in memory that nothing has read lately is most of the time that
// a look-up takes. Tables are at most 3/4 full.
type Names[T any] struct {
	seed  maphash.Seed
	text  strings.Builder
	slots []slotOf[T]
	n     int
	depth [2]uint64 // bit n-1: there is a name of n labels
}

// slotOf is free when id is 0, where the text has a byte that belongs to no name.
type slotOf[T any] struct {
	half  uint32
	id    uint32
	value T
}

const prefix = "*."

// NewNames returns an empty table with room for n names.
func NewNames[T any](n int) *Names[T] {
	t := &Names[T]{seed: maphash.MakeSeed(), slots: make([]slotOf[T], sizeFor(max(8, n+n/3+1)))}
	t.text.WriteByte(0)
	return t
}

// sizeFor returns the least power of two that is not below least.
func sizeFor(least int) int { return 1 << bits.Len(uint(least-1)) }

func (t *Names[T]) resize(size int) {
	old := t.slots
	t.slots = make([]slotOf[T], size)
	for _, s := range old {
		if s.id != 0 {
			t.place(maphash.String(t.seed, t.Name(s.id)), s.id, s.value)
		}
	}
}

// place puts an id into the first free slot.
func (t *Names[T]) place(hash uint64, id uint32, value T) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].id != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slotOf[T]{uint32(hash >> 32), id, value}
}

// Name returns a name by its id.
func (t *Names[T]) Name(id uint32) string { return t.Pattern(id)[len(prefix):] }

// Pattern returns "*." and a name by its id.
func (t *Names[T]) Pattern(id uint32) string {
	s := t.text.String()[id:]
	return s[1 : 1+len(prefix)+int(s[0])]
}

// Add returns the id of a name, a new one when it is not there yet. It fails
// when the names together exceed 4 GiB.
func (t *Names[T]) Add(name string) (uint32, error) {
	if id, v := t.Find(name); v != nil {
		return id, nil
	}
	if len(name) == 0 || len(name) > 253 {
		return 0, fmt.Errorf("index: a name of %d bytes", len(name))
	}
	if uint64(t.text.Len())+uint64(1+len(prefix)+len(name)) > math.MaxUint32 {
		return 0, fmt.Errorf("index: the names exceed 4 GiB")
	}
	if (t.n+1)*4 > len(t.slots)*3 {
		t.resize(len(t.slots) * 2)
	}
	id := uint32(t.text.Len())
	t.text.WriteByte(byte(len(name)))
	t.text.WriteString(prefix)
	t.text.WriteString(name)
	t.n++
	var none T
	t.place(maphash.String(t.seed, name), id, none)
	labels := strings.Count(name, ".")
	t.depth[labels/64] |= 1 << (labels % 64)
	return id, nil
}

// Freeze drops the room that was kept for more names.
func (t *Names[T]) Freeze() { shrink(&t.text) }

// shrink drops the room that a builder keeps for more.
func shrink(b *strings.Builder) {
	s := b.String()
	b.Reset()
	b.Grow(len(s))
	b.WriteString(s)
}

// Find returns the id of a name and its value, nil when there is no such name. The
// value is set while building and read afterwards; it moves when names are added.
func (t *Names[T]) Find(name string) (uint32, *T) {
	hash := maphash.String(t.seed, name)
	half := uint32(hash >> 32)
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.id == 0 {
			return 0, nil
		}
		if s.half == half && t.Name(s.id) == name {
			return s.id, &s.value
		}
	}
}

// At returns the value of a name that is there, as Find does.
func (t *Names[T]) At(id uint32) *T {
	_, v := t.Find(t.Name(id))
	return v
}

// All gives the ids and values, in the order of Add.
func (t *Names[T]) All() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		for id, end := uint64(1), uint64(t.text.Len()); id < end; {
			name := t.Name(uint32(id))
			if _, v := t.Find(name); !yield(uint32(id), v) {
				return
			}
			id += uint64(1 + len(prefix) + len(name))
		}
	}
}

// HasDepth reports whether any name has so many labels.
func (t *Names[T]) HasDepth(labels int) bool {
	labels--
	return labels >= 0 && labels < 128 && t.depth[labels/64]>>(labels%64)&1 != 0
}

// Len returns the number of names.
func (t *Names[T]) Len() int { return t.n }
