package index

import (
	"fmt"
	"math"
	"strings"
)

// Texts keeps many short texts in one.
type Texts struct {
	ends []uint32
	text strings.Builder
}

// Add keeps a text and returns its number, which counts from 0. It fails when
// the texts together exceed 4 GiB.
func (t *Texts) Add(s string) (uint32, error) {
	if uint64(t.text.Len())+uint64(len(s)) > math.MaxUint32 {
		return 0, fmt.Errorf("index: the texts exceed 4 GiB")
	}
	t.text.WriteString(s)
	t.ends = append(t.ends, uint32(t.text.Len()))
	return uint32(len(t.ends) - 1), nil
}

// Freeze drops the room that was kept for more texts.
func (t *Texts) Freeze() {
	shrink(&t.text)
	t.ends = append(make([]uint32, 0, len(t.ends)), t.ends...)
}

// Get returns a text.
func (t *Texts) Get(i uint32) string {
	start := uint32(0)
	if i > 0 {
		start = t.ends[i-1]
	}
	return t.text.String()[start:t.ends[i]]
}

// Len returns the number of texts.
func (t *Texts) Len() int { return len(t.ends) }
