// Package redact masks secrets in every byte that leaves: responses, logs,
// packet exports. It is the only redactor.
//
// A Redactor is compiled from a set of values and finds each of them raw, in
// base64 (three offsets, both alphabets), hexadecimal (both cases), percent
// encoding, JSON and HTML escapes. What is found is overwritten by '*' of the
// same length, so that lengths, ranges and frame headers stay right.
//
// # How it searches
//
// Patterns are sorted into classes by length. A class has a stride s and holds
// the 8-byte grams of every pattern at its first s offsets; the text is looked
// at in every s-th position only. Any occurrence has one of its first s
// positions at such a place, so none is missed, and for long secrets most of
// the text is never read. A gram that is known says at which offsets patterns
// have it; each is verified by a search in the sorted patterns. The work for
// one place is bounded, whatever the text and the patterns.
//
// # What it cannot do
//
// A host that is given a credential can send it back in an encoding of its own
// making (reversed, encrypted, one character a request), or break its base64 form into
// lines in the middle of it. Up to six bits at
// either end of a base64 form at an odd offset stay visible, because they share
// a character with bytes that are not the secret's.
package redact

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"
)

// MinSecret is the fewest bytes of a value that can be redacted: shorter ones
// would be found by chance in text that has nothing to do with them.
const MinSecret = 8

// MaxSecret is the most bytes of a value.
const MaxSecret = 64 << 10

// Mask is the byte that overwrites secrets.
const Mask = '*'

// Redactor finds and masks a fixed set of secrets. It is safe for concurrent
// use. The nil Redactor finds nothing.
type Redactor struct {
	sets []*set
	max  int // longest pattern
	// folded finds values in lower case: names of header fields lose their case
	// on the way.
	folded []*set
}

// New compiles a Redactor for the given values. A value whose length is not
// between MinSecret and MaxSecret is an error, which does not quote it.
func New(values ...[]byte) (*Redactor, error) { return NewForms(AllForms, values...) }

// NewForms is New for some of the forms only; tests use it to tell them apart.
func NewForms(forms Forms, values ...[]byte) (*Redactor, error) {
	patterns := map[string]bool{}
	for i, v := range values {
		if len(v) < MinSecret || len(v) > MaxSecret {
			return nil, fmt.Errorf("secret number %d has %d bytes; a secret that can be redacted has %d to %d", i+1, len(v), MinSecret, MaxSecret)
		}
		expand(v, forms, func(p string) { patterns[p] = true })
	}
	r := &Redactor{sets: compile(patterns)}
	if forms&Raw != 0 {
		lower := map[string]bool{}
		for _, v := range values {
			lower[strings.ToLower(string(v))] = true
		}
		r.folded = compile(lower)
	}
	for p := range patterns {
		r.max = max(r.max, len(p))
	}
	return r, nil
}

// With returns a Redactor that finds what r and o find. It costs no more than
// the sum of both and compiles nothing.
func (r *Redactor) With(o *Redactor) *Redactor {
	switch {
	case r.Empty():
		return o
	case o.Empty():
		return r
	}
	return &Redactor{
		sets:   append(append([]*set{}, r.sets...), o.sets...),
		folded: append(append([]*set{}, r.folded...), o.folded...),
		max:    max(r.max, o.max),
	}
}

// Empty says whether there is nothing to find.
func (r *Redactor) Empty() bool { return r == nil || len(r.sets) == 0 }

// Bytes masks every occurrence in b, in place, and returns their number.
func (r *Redactor) Bytes(b []byte) int {
	if r.Empty() {
		return 0
	}
	n, _ := r.mask(b, nil)
	return n
}

// String returns s with every occurrence masked, and their number. It
// allocates only when there is one.
func (r *Redactor) String(s string) (string, int) {
	if !r.ContainsString(s) {
		return s, 0
	}
	b := []byte(s)
	n := r.Bytes(b)
	return string(b), n
}

// FieldName is String for the name of a header field, in any case.
func (r *Redactor) FieldName(name string) (string, int) {
	if r.Empty() || len(name) < MinSecret {
		return name, 0
	}
	low := []byte(strings.ToLower(name))
	n, _ := (&Redactor{sets: r.folded}).mask(low, nil)
	if n == 0 {
		return name, 0
	}
	return string(low), n
}

// ContainsString says whether s holds an occurrence.
func (r *Redactor) ContainsString(s string) bool {
	if r.Empty() || len(s) < MinSecret {
		return false
	}
	// Contains only reads.
	return r.Contains(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Contains says whether b holds an occurrence.
func (r *Redactor) Contains(b []byte) bool {
	if r.Empty() {
		return false
	}
	for _, s := range r.sets {
		found := false
		s.scan(b, func(int, int) bool { found = true; return false })
		if found {
			return true
		}
	}
	return false
}

// span is an occurrence, end exclusive.
type span struct{ start, end int }

// mask overwrites the occurrences of b. With g, more is to come: it also returns
// from where on bytes have to be held back because a secret may begin there,
// leaves those bytes as they are, and notes in g what they begin.
func (r *Redactor) mask(b []byte, g *progress) (found, hold int) {
	var few [16]span
	spans := few[:0]
	for _, s := range r.sets {
		s.scan(b, func(start, end int) bool {
			spans = append(spans, span{start, end})
			return true
		})
	}
	hold = len(b)
	if g != nil {
		hold = r.holdBack(b, spans, g)
		g.scannedTo(len(b), hold)
	}
	// Only now, so that masking one occurrence cannot hide another that
	// overlaps it.
	for _, sp := range spans {
		if sp.end <= hold {
			fill(b[sp.start:sp.end])
			found++
		}
	}
	return found, hold
}

// holdBack finds where the beginning of a secret may lie at the end of b. An
// occurrence that reaches into that part is held back as a whole: masking it
// now would hide the longer one that it overlaps.
func (r *Redactor) holdBack(b []byte, spans []span, g *progress) int {
	hold := len(b)
	var in *set
	for _, s := range r.sets {
		if at := s.tail(b); at < hold {
			hold, in = at, s
		}
	}
	g.begins(r, in, b[hold:])
	if hold == len(b) {
		return hold
	}
	first := hold
	for changed := true; changed; {
		changed = false
		for _, sp := range spans {
			if sp.start < hold && sp.end > hold {
				hold, changed = sp.start, true
			}
		}
	}
	if len(b)-hold > 4*r.max {
		// A text made of overlapping occurrences without end: it is given up as
		// one, and its end is looked at anew.
		for _, sp := range spans {
			fill(b[sp.start:sp.end])
		}
		return first
	}
	return hold
}

func fill(b []byte) {
	for i := range b {
		b[i] = Mask
	}
}

// Live is a Redactor that can be exchanged while streams are open: leases are
// minted during a run.
type Live struct{ p atomic.Pointer[Redactor] }

// NewLive begins with r.
func NewLive(r *Redactor) *Live {
	l := &Live{}
	l.p.Store(r)
	return l
}

// Set exchanges the Redactor; open streams use it from their next byte on.
func (l *Live) Set(r *Redactor) { l.p.Store(r) }

// Get returns the current Redactor.
func (l *Live) Get() *Redactor { return l.p.Load() }

// Masked is what a value looks like after redaction.
func Masked(n int) string { return strings.Repeat(string(rune(Mask)), n) }
