// Package redact masks secrets in every byte that leaves: responses, logs,
// packet exports. It is the only redactor.
//
// A Redactor is compiled from a set of values and finds each of them raw, in
// base64 (three offsets, both alphabets) and hexadecimal (both cases); and each of
// these in percent escapes, backslash escapes as of JSON, character references of
// HTML and quoted-printable, whichever characters are escaped, and broken into lines.
// What is found is overwritten by '*' of the same length, so that lengths, ranges and
// frame headers stay right.
//
// # How it searches
//
// Patterns are sorted into classes by length. A class has a stride s and holds
// the grams, 5 to 8 bytes long, of every pattern at its first s offsets; the text is looked
// at in every s-th position only. Any occurrence has one of its first s
// positions at such a place, so none is missed, and for long secrets most of
// the text is never read. A gram that is known says at which offsets patterns
// have it; each is verified by a search in the sorted patterns. The work for
// one place is bounded, whatever the text and the patterns.
//
// An occurrence that has an escape in it either begins with bytes that have none, so
// that a gram is found as above and the rest is read with escapes undone; or it has one among its
// first bytes. So around each escape, and each line break between characters of an
// encoding, a few bytes are searched once more as they read with it undone.
//
// # What it cannot do
//
// A host that is given a credential can send it back in an encoding of its own
// making (reversed, encrypted, escaped twice, one character a request). Up to six bits at
// either end of a base64 form at an odd offset stay visible, because they share
// a character with bytes that are not the secret's. Of a secret that a line break cuts
// after fewer than four bytes, just where what a server sent ends for the moment, these
// are seen.
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
	sets  []*set
	max   int // longest pattern
	forms Forms
	// folded finds values in lower case: names of header fields lose their case
	// on the way.
	folded []*set
}

// New compiles a Redactor for the given values. A value whose length is not
// between MinSecret and MaxSecret is an error, which does not quote it.
func New(values ...[]byte) (*Redactor, error) { return NewForms(AllForms, values...) }

// NewForms is New for some of the forms only; tests use it to tell them apart.
func NewForms(forms Forms, values ...[]byte) (*Redactor, error) {
	patterns, hidden, lower := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, v := range values {
		if len(v) < MinSecret || len(v) > MaxSecret {
			return nil, fmt.Errorf("secret number %d has %d bytes; a secret that can be redacted has %d to %d", i+1, len(v), MinSecret, MaxSecret)
		}
		if forms == 0 {
			continue
		}
		expand(v, forms, func(p string) { patterns[p] = true })
		if forms&Raw != 0 {
			lower[strings.ToLower(string(v))] = true
		} else {
			hidden[string(v)] = true
		}
	}
	r := &Redactor{sets: compile(patterns, forms, hidden), folded: compile(lower, Raw, nil), forms: forms}
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
		forms:  r.forms | o.forms,
	}
}

// Empty says whether there is nothing to find.
func (r *Redactor) Empty() bool { return r == nil || len(r.sets) == 0 }

// Bytes masks every occurrence in b, in place, and returns their number.
func (r *Redactor) Bytes(b []byte) int {
	found, _ := r.mask(b, 0, false)
	return found
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
	n := (&Redactor{sets: r.folded}).Bytes(low)
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
	q := search{r: r, b: b, any: true}
	q.run()
	return len(q.spans) > 0
}

// ends says what of a text whose end is not known yet can be given out.
type ends struct {
	hold int // a secret may begin here: the rest stays as it is and is held back
	keep int // from here on it has to be seen again, with what follows; at most hold
	cut  int // here begins a secret of which at least minTail bytes are there
}

// mask overwrites the occurrences of b, of which the first seen bytes have gone out
// already. With more to come it leaves what has to be held back as it is.
func (r *Redactor) mask(b []byte, seen int, more bool) (found int, e ends) {
	e = ends{len(b), len(b), len(b)}
	if r.Empty() {
		return 0, e
	}
	var few [16]span
	q := search{r: r, b: b, more: more, spans: few[:0]}
	q.run()
	if more {
		e = ends{q.hold, q.keep, q.cut}
		e.hold = r.holdBack(b, q.spans, q.hold)
		e.keep = min(e.keep, e.hold)
		e.hold = max(seen, e.hold)
	}
	// Only now, so that masking one occurrence cannot hide another that
	// overlaps it.
	for _, sp := range q.spans {
		if sp.end <= e.hold && sp.end > seen {
			sp.fill(b)
			found++
		}
	}
	return found, e
}

// holdBack moves the place from which on b is held back. An occurrence that reaches
// over it is held back as a whole: masking it now would hide the longer one that it
// overlaps.
func (r *Redactor) holdBack(b []byte, spans []span, hold int) int {
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
	most := 4 * r.max
	if r.forms&(Percent|JSON|HTML|Quoted) != 0 {
		most *= 4
	}
	if len(b)-hold > most {
		// A text made of overlapping occurrences without end: it is given up as
		// one, and its end is looked at anew.
		for _, sp := range spans {
			sp.fill(b)
		}
		return first
	}
	return hold
}

// fill overwrites the occurrence. Line breaks that are none of the secret's stay.
func (sp span) fill(b []byte) {
	for i := sp.start; i < sp.end; i++ {
		if c := b[i]; !sp.broken || c != '\n' && c != '\r' && c != ' ' && c != '\t' {
			b[i] = Mask
		}
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
