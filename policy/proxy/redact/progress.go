package redact

import "sort"

// Bounds of the work for a text that comes in small pieces: bytes that are searched for
// each byte of it, and how many before that is looked at.
const (
	workPerByte = 32
	workAtFirst = 256 << 10
)

// progress is what is known of the bytes that are held back: what comes next is
// compared with the secrets that they may be the beginning of, and only when it is none
// of those is everything searched anew. Otherwise a long secret in pieces of one byte
// would be searched once for every byte.
type progress struct {
	held           int   // bytes that are held back
	last           int   // of them, at the last search
	given, scanned int64 // bytes that came, and that were searched

	in     *Redactor
	set    *set // whose patterns lo to hi are longer than what is held back from hold on, and begin with it; nil: unknown
	lo, hi int
	size   int // how long that is
}

// waits says that nothing can be decided yet about the bytes that are held back and
// more, which came after them.
func (g *progress) waits(r *Redactor, more []byte) bool {
	g.given += int64(len(more))
	if len(more) == 0 || g.held == 0 {
		return false
	}
	if !g.goesOn(r, more) {
		g.set = nil
		if !g.puts(g.held + len(more)) {
			return false
		}
	}
	g.held += len(more)
	return true
}

// puts off a search when there was much of it for few bytes: until there is a good deal
// more to search.
func (g *progress) puts(size int) bool {
	return g.scanned > workAtFirst+workPerByte*g.given && size-g.last < size/workPerByte
}

// goesOn says whether more still is the beginning of a secret, with what came before.
// No other secret can have ended meanwhile that began earlier, as then that one's
// beginning would have been held back.
func (g *progress) goesOn(r *Redactor, more []byte) bool {
	if g.set == nil || g.in != r || g.size+len(more) >= g.set.max {
		return false
	}
	p := g.set.patterns[g.lo:g.hi]
	lo := sort.Search(len(p), func(i int) bool { return p[i][g.size:] > string(more) })
	p = p[lo:]
	n := sort.Search(len(p), func(i int) bool {
		rest := p[i][g.size:]
		return len(rest) < len(more) || rest[:len(more)] != string(more)
	})
	if n == 0 {
		return false
	}
	g.lo, g.hi, g.size = g.lo+lo, g.lo+lo+n, g.size+len(more)
	return true
}

// begins notes that t, the end of a text, is the beginning of patterns of s.
func (g *progress) begins(r *Redactor, s *set, t []byte) {
	g.in, g.set, g.lo, g.size = r, s, 0, 0
	if s == nil {
		return
	}
	g.hi = len(s.patterns)
	if !g.goesOn(r, t) {
		g.set = nil
	}
}

// scannedTo notes a search of size bytes, all but the first hold of which are held back.
func (g *progress) scannedTo(size, hold int) {
	g.scanned += int64(size)
	g.held = size - hold
	g.last = g.held
}
