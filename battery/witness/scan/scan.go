// Package scan finds the nonces of a run in whatever reaches the world. It is
// pure.
//
// A nonce (probes/nonce) is found in any letter case, reversed, with anything
// but letters and digits between its characters, escaped (percent, backslash-x,
// backslash-u, HTML decimal and hexadecimal), in hexadecimal, in base32 and in
// base64 of both alphabets at any offset, in gzip, zlib and raw names of DNS
// messages, and in any three of these inside one another. What package canary
// does for canaries this does for nonces; the two differ in that a nonce has no
// checksum, so that a Finder is given the nonces of the run.
//
// All work is bounded: what exceeds a bound is cut, not refused, because a
// finder that gives up on large input is one that large input switches off.
package scan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/probes/nonce"
)

// Bounds of one call of Find.
const (
	maxDepth = 3        // encodings inside one another
	maxFound = 64       // nonces
	maxWork  = 32 << 20 // bytes looked at, decoded ones included
)

// Carry is how many bytes a Stream keeps of what it was given before: the
// longest form of a nonce that is still found when a stream is cut anywhere.
const Carry = 512

// Finder finds nonces. It is safe for concurrent use.
type Finder struct {
	known map[string]struct{} // nil: anything of a nonce's shape
}

// New returns a Finder for the nonces of a run. With none it reports every word
// of a nonce's shape, which can be a chance match.
func New(known []string) *Finder {
	if len(known) == 0 {
		return &Finder{}
	}
	f := &Finder{known: make(map[string]struct{}, len(known))}
	for _, n := range known {
		f.known[n] = struct{}{}
	}
	return f
}

// Find returns the nonces in b in lower case, in order of discovery, without
// repeats, at most 64.
func (f *Finder) Find(b []byte) []string {
	s := search{finder: f, budget: maxWork}
	s.scan(b, maxDepth)
	return s.found
}

// FindString is Find for a string.
func (f *Finder) FindString(s string) []string { return f.Find([]byte(s)) }

// FindPlain returns only the nonces that stand in b as they are, in any letter
// case. It is cheap enough for every packet.
func (f *Finder) FindPlain(b []byte) []string {
	s := search{finder: f, budget: maxWork}
	s.plain(fold(b))
	return s.found
}

// FindName returns the nonces in a DNS name, also when their characters are
// split over its labels.
func (f *Finder) FindName(name string) []string {
	s := search{finder: f, budget: maxWork}
	s.scan([]byte(name), maxDepth)
	if f.known == nil {
		s.joined(strings.Split(strings.ToLower(name), "."))
	}
	return s.found
}

// search is the state of one call.
type search struct {
	finder *Finder
	found  []string
	budget int
}

// scan looks at b itself and, while depth lasts, at everything b decodes to.
func (s *search) scan(b []byte, depth int) {
	if len(b) < nonce.Length || s.budget <= 0 || len(s.found) >= maxFound {
		return
	}
	if len(b) > s.budget {
		b = b[:s.budget]
	}
	s.budget -= len(b)
	folded := fold(b)
	s.plain(folded)
	s.plain(reversed(folded))
	if s.finder.known != nil { // without known nonces any long text would match
		if stripped := keep(folded, classAlnum); len(stripped) != len(folded) {
			s.plain(stripped)
			s.plain(reversed(stripped))
		}
	}
	if depth > 1 {
		s.decode(b, depth-1)
	}
}

// plain records the nonces that stand in folded bytes as they are.
func (s *search) plain(b []byte) {
	if s.finder.known == nil {
		for _, n := range nonce.Find(b) {
			s.add(n)
		}
		return
	}
	for start := 0; start < len(b); {
		if !inAlphabet(b[start]) {
			start++
			continue
		}
		end := start
		for end < len(b) && inAlphabet(b[end]) {
			end++
		}
		s.window(b[start:end])
		start = end
	}
}

// window tries every place of one run of a nonce's alphabet.
func (s *search) window(run []byte) {
	for at := 0; at+nonce.Length <= len(run); at++ {
		i := bytes.IndexByte(run[at:], 'w')
		if i < 0 || at+i+nonce.Length > len(run) {
			return
		}
		at += i
		word := run[at : at+nonce.Length]
		if _, ok := s.finder.known[string(word)]; ok {
			s.add(string(word))
		}
	}
}

// joined tries every stretch of whole labels whose characters add up to a
// nonce.
func (s *search) joined(labels []string) {
	for from := range labels {
		word := ""
		for _, l := range labels[from:] {
			word += l
			if len(word) >= nonce.Length {
				break
			}
		}
		if nonce.Valid(word) {
			s.add(word)
		}
	}
}

func (s *search) add(n string) {
	if len(s.found) < maxFound && !slices.Contains(s.found, n) {
		s.found = append(s.found, n)
	}
}

// Stream finds nonces in bytes that arrive in pieces. It is not safe for
// concurrent use.
type Stream struct {
	finder *Finder
	tail   []byte
	seen   map[string]bool
}

// Stream returns a new Stream of the finder.
func (f *Finder) Stream() *Stream { return &Stream{finder: f, seen: map[string]bool{}} }

// Add takes the next piece and returns the nonces that it completes and that
// the stream had not returned before.
func (s *Stream) Add(piece []byte) []string {
	if len(piece) == 0 {
		return nil
	}
	buf := append(s.tail, piece...)
	var fresh []string
	for _, n := range s.finder.Find(buf) {
		if !s.seen[n] && len(s.seen) < maxFound {
			s.seen[n] = true
			fresh = append(fresh, n)
		}
	}
	if len(buf) > Carry {
		buf = buf[len(buf)-Carry:]
	}
	s.tail = slices.Clone(buf)
	return fresh
}

// fold returns b in lower case with every byte outside ASCII made a separator,
// so that folding cannot turn a foreign letter into one of ours.
func fold(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			out[i] = c + 'a' - 'A'
		case c < 0x80:
			out[i] = c
		}
	}
	return out
}

func reversed(b []byte) []byte {
	out := slices.Clone(b)
	slices.Reverse(out)
	return out
}

func inAlphabet(c byte) bool { return 'a' <= c && c <= 'z' || '2' <= c && c <= '7' }
