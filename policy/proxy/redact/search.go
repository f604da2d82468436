package redact

import (
	"bytes"
	"math/bits"
)

// search is one look through a text.
type search struct {
	r    *Redactor
	b    []byte
	more bool // the text goes on
	any  bool // one occurrence is enough

	spans []span
	// Where secrets may begin that the text ends in: hold is from where on it must not
	// go out, keep from where on it has to be looked at again, cut where the first of
	// them begins that is long enough to be told.
	hold, keep, cut int

	// intro is where, of each view, the next byte is that may begin an escape, for
	// places from from on.
	intro [8]struct{ from, at int }
	work  int // bytes read by follow

	*scratch
}

// span is an occurrence, end exclusive.
type span struct {
	start, end int
	broken     bool // over line breaks, which stay
}

// run looks for everything.
func (q *search) run() {
	q.hold, q.keep, q.cut = len(q.b), len(q.b), len(q.b)
	q.scratch = scratches.Get().(*scratch)
	defer scratches.Put(q.scratch)
	for _, s := range q.r.sets {
		if !q.plain(s) {
			return
		}
	}
	for _, v := range views {
		if q.r.forms&v.form != 0 && !q.viewed(v) {
			return
		}
	}
	if q.more {
		for _, s := range q.r.sets {
			if i := s.tail(q.b); i < len(q.b) {
				q.open(i, len(q.b)-i, false)
			}
		}
	}
}

// found notes an occurrence. It is false when that was enough.
func (q *search) found(start, end int, broken bool) bool {
	q.spans = append(q.spans, span{start, end, broken})
	return !q.any
}

// open notes that the text may end in a secret that begins at start, of which n bytes
// are there; atBreak says that it ends in a line break.
func (q *search) open(start, n int, atBreak bool) {
	q.keep = min(q.keep, start)
	if !atBreak || n >= shortBreak {
		q.hold = min(q.hold, start)
	}
	if n >= minTail {
		q.cut = min(q.cut, start)
	}
}

// plain finds the patterns of s that stand as they are, and those of which only the
// beginning does.
func (q *search) plain(s *set) bool {
	return s.places(q.b, func(start int) bool {
		lo, hi, ok := s.prefixRange(q.b[start:])
		if !ok {
			return true
		}
		if n := s.longestIn(lo, hi, q.b[start:]); n > 0 && !s.hidden[string(q.b[start:start+n])] && !q.found(start, start+n, false) {
			return false
		}
		return q.follow(s, start)
	})
}

// viewed finds the patterns that have an escape of v among their first bytes.
func (q *search) viewed(v *view) bool {
	quiet := 0 // no escape is before here that reaches as far as the next one's window
	if v.undo == nil && bytes.IndexByte(q.b, '\r') < 0 {
		v = justLF // one search instead of two
	}
	for i := v.next(q.b, 0); i >= 0; i = v.next(q.b, i) {
		if i+1 < len(q.b) && !v.second[q.b[i+1]] {
			i++ // most of what looks like an escape is none
			continue
		}
		n, look := q.glance(v, i, quiet)
		if !look {
			i += max(1, n)
			if n > 0 {
				quiet = i
			}
			continue
		}
		var ok bool
		if i, ok = q.window(v, i); !ok {
			return false
		}
		quiet = i
	}
	if q.more {
		q.viewedTail(v)
	}
	return true
}

// glance looks at an escape at i that no other one is near to. It returns the escape's
// length, 0 when it is none, and whether it takes a second look: a gram is there, or
// another escape.
func (q *search) glance(v *view, i, quiet int) (n int, look bool) {
	what, n := v.escape(q.few[:0], q.b, i)
	if n <= 0 {
		return 0, false
	}
	if v.undo == nil {
		return n, q.near(v, q.joined(i, i+n), lead)
	}
	from := max(0, i-lead)
	lines := bytes.IndexByte(q.b[from:i], '\n') >= 0 || bytes.IndexByte(q.b[from:i], '\r') >= 0
	if lines {
		from = max(0, i-linesLead)
	}
	text := q.room[:copy(q.room[:], q.b[from:i])]
	at := len(text)
	text = append(text, what...)
	end := min(len(q.b), i+n+lead)
	if from < quiet {
		return n, true
	}
	for j := v.next(q.b[:end], i+n); j >= 0; j = v.next(q.b[:end], j+1) {
		if _, m := v.escape(q.few[:0], q.b, j); m > 0 {
			return n, true
		}
	}
	text = append(text, q.b[i+n:end]...)
	if q.near(v, text, at) {
		return n, true
	}
	if q.r.forms&Lines == 0 || bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return n, false
	}
	return n, q.near(v, joinInPlace(text), -1)
}

// near says whether b holds a gram of a pattern that begins at place at, or before it
// and reaches over it with its first grams; anywhere, if at is negative.
func (q *search) near(v *view, b []byte, at int) bool {
	for _, s := range q.r.sets {
		if s.forms&v.form == 0 {
			continue
		}
		first, last := 0, len(b)
		if at >= 0 {
			first, last = at-(s.stride+s.gram-2), min(len(b), at+s.stride-1+s.gram)
		}
		if s.holds(b[:last], first) {
			return true
		}
	}
	return false
}

// holds says whether b holds a gram from place first on.
func (s *set) holds(b []byte, first int) bool {
	n, drop := uint64(len(s.bloom)), s.shift()
	for end := max(gram, first+s.gram); end <= len(b); end += s.stride {
		h := hash(load(b[end-gram:]) >> drop << drop)
		w, _ := bits.Mul64(h, n)
		if m := bloomBits(h); s.bloom[w]&m == m && !s.starts(end-s.gram, h, func(int) bool { return false }) {
			return true
		}
	}
	return false
}

// joined is lead bytes before i, or zeros, and as many from end on, over line breaks.
func (q *search) joined(i, end int) []byte {
	b, out := q.b, q.room[:2*lead]
	k := lead
	for ; k > 0 && i > 0; k-- {
		if c := b[i-1]; c <= ' ' {
			if at := beforeBreak(b, i); at > 0 {
				i = at
			}
		}
		i--
		out[k-1] = b[i]
	}
	clear(out[:k])
	k = lead
	for ; k < len(out) && end < len(b); k++ {
		if c := b[end]; c == '\n' || c == '\r' {
			if end = afterBreak(b, end); end == len(b) {
				break
			}
		}
		out[k] = b[end]
		end++
	}
	return out[:k]
}

// joinInPlace is reading.join for a few bytes.
func joinInPlace(b []byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); {
		if next := afterBreak(b, i); next > i && len(out) > 0 {
			if i = next; i == len(b) {
				break
			}
		}
		out = append(out, b[i])
		i++
	}
	return out
}

// escape appends what the escape at i stands for, and returns its length: see undo.
func (v *view) escape(dst, b []byte, i int) ([]byte, int) {
	if v.undo == nil {
		return dst, lineBreak(b, i)
	}
	return v.undo(dst, b[i:min(len(b), i+maxEscape)])
}

// lineBreak is the length of a line break at i, with the blanks after it, 0 where it
// is not within what may be an encoding in lines: eight characters of one around it.
func lineBreak(b []byte, i int) int {
	if i == 0 || !isEncoded(b[i-1]) {
		return 0
	}
	end := afterBreak(b, i)
	if end < len(b) && !isEncoded(b[end]) {
		return 0
	}
	n := 0
	for j := end; n < MinSecret; {
		if j == len(b) {
			return end - i // what follows may be one
		}
		if next := afterBreak(b, j); isEncoded(b[j]) {
			n, j = n+1, j+1
		} else if next > j {
			j = next
		} else {
			break
		}
	}
	for j := i; n < MinSecret && j > 0; {
		if isEncoded(b[j-1]) {
			n, j = n+1, j-1
		} else if j = beforeBreak(b, j); j < 0 {
			return 0
		}
	}
	if n < MinSecret {
		return 0
	}
	return end - i
}

// afterBreak is the place after the line break at i and its blanks, i if there is none.
func afterBreak(b []byte, i int) int {
	switch {
	case b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n':
		i++
	case b[i] != '\r' && b[i] != '\n':
		return i
	}
	i++
	for most := i + maxIndent; i < len(b) && i < most && (b[i] == ' ' || b[i] == '\t'); i++ {
	}
	return i
}

// beforeBreak is the place before the line break that ends, with its blanks, at i, or
// -1 if there is none.
func beforeBreak(b []byte, i int) int {
	for least := i - maxIndent; i > 0 && i > least && (b[i-1] == ' ' || b[i-1] == '\t'); i-- {
	}
	if i > 0 && b[i-1] == '\n' {
		i--
		if i > 0 && b[i-1] == '\r' {
			i--
		}
		return i
	}
	if i > 0 && b[i-1] == '\r' {
		return i - 1
	}
	return -1
}

// window looks at the escapes from i on that are close to one another, and returns
// the place after them.
func (q *search) window(v *view, i int) (next int, ok bool) {
	d, joined := &q.d[0], &q.d[1]
	from := max(0, i-lead)
	if bytes.ContainsAny(q.b[from:i], "\n\r") {
		from = max(0, i-linesLead)
	}
	d.reset(from, q.more)
	for {
		had := len(d.out)
		v.read(d, q.b, windowRoom, i)
		if v.undo != nil && !q.places(v, d) {
			return 0, false
		}
		if (d.lines || v.undo == nil) && q.r.forms&Lines != 0 {
			d.join(joined)
			if !q.places(v, joined) {
				return 0, false
			}
		}
		if len(d.out) < windowRoom || d.next >= len(q.b) || len(d.out) == had {
			return max(d.next, i+1), true
		}
		d.keepLast(overlap)
	}
}

// places looks for grams in what a view reads.
func (q *search) places(v *view, d *reading) bool {
	for _, s := range q.r.sets {
		if s.forms&v.form == 0 {
			continue
		}
		at, out := d.at, d.out
		ok := s.places(out, func(k int) bool {
			if len(out)-k >= gram {
				if _, _, ok := s.prefixRange(out[k:]); !ok {
					return true
				}
			}
			return q.follow(s, at[k])
		})
		if !ok {
			return false
		}
	}
	return true
}

// follow reads on from start, where a pattern of s seems to begin, as every view does.
func (q *search) follow(s *set, start int) bool {
	for i, v := range views {
		if s.forms&v.form == 0 || !q.reaches(s, i, start) {
			continue
		}
		if v.undo != nil && !q.followAs(s, v, start, false) {
			return false
		}
		if s.forms&Lines != 0 && !q.followAs(s, v, start, true) {
			return false
		}
	}
	return true
}

// reaches says whether a pattern of s at start may have an escape of view i, or a line
// break, in it: up to there the text has to be a pattern's beginning as it is.
func (q *search) reaches(s *set, i, start int) bool {
	for _, k := range []int{0, i} { // 0 is that of lines
		if c := &q.intro[k]; start < c.from || start >= c.at {
			c.from, c.at = start, views[k].next(q.b, start)
			if c.at < 0 {
				c.at = len(q.b)
			}
		}
		at := q.intro[k].at
		if at < len(q.b) && at-start <= s.max && (at-start < gram || s.begins(q.b[start:at])) {
			return true
		}
	}
	return false
}

// followAs looks for the longest pattern at start that has an escape in it.
func (q *search) followAs(s *set, v *view, start int, join bool) bool {
	d := &q.d[2]
	d.reset(start, q.more)
	for size := 4 * gram; ; size *= 2 {
		had := len(d.out)
		v.read(d, q.b, size, len(q.b))
		if q.work += len(d.out) - had; q.work > maxWork*len(q.b)+windowRoom<<8 {
			// A text of nothing but beginnings of long secrets: all of it is masked.
			return q.found(start, min(len(q.b), start+s.max), true)
		}
		e := d
		if join {
			e = &q.d[3]
			d.join(e)
		}
		goes := s.begins(e.out)
		if goes && d.next < len(q.b) {
			continue
		}
		if join && !d.lines {
			return true // as without
		}
		n := len(e.out)
		if goes && q.more && len(q.b)-start != n {
			q.open(start, n, e.atBreak(q.b))
		}
		if k := s.longestAt(e.out); k > 0 && e.end(k)-start != k {
			return q.found(start, e.end(k), join)
		}
		return true
	}
}

// viewedTail notes where a pattern begins whose first bytes, an escape of v among
// them, the text ends in. Of longer beginnings a gram was found.
func (q *search) viewedTail(v *view) {
	reach := lead * maxEscape
	if v.undo == nil {
		reach = linesLead
	}
	from := max(0, len(q.b)-reach)
	if v.next(q.b, from) < 0 {
		return
	}
	d, joined := &q.d[0], &q.d[1]
	d.reset(from, q.more)
	v.read(d, q.b, reach+1, len(q.b))
	if d.partial >= 0 {
		q.open(d.partial, 0, false)
	}
	if v.undo != nil {
		q.openTails(v, d)
	}
	if d.lines && q.r.forms&Lines != 0 {
		d.join(joined)
		q.openTails(v, joined)
	}
}

func (q *search) openTails(v *view, d *reading) {
	for k := max(0, len(d.out)-lead); k < len(d.out); k++ {
		left := len(d.out) - k
		if len(q.b)-d.at[k] == left {
			continue // no escape: the plain search knows
		}
		for _, s := range q.r.sets {
			if s.forms&v.form != 0 && s.first[d.out[k]] && s.begins(d.out[k:]) {
				q.open(d.at[k], left, d.atBreak(q.b))
				break
			}
		}
	}
}
