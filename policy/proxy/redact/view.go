package redact

import (
	"bytes"
	"html"
	"sync"
	"unicode/utf8"
)

// Bounds of reading escapes.
const (
	maxEscape = 32 // bytes of one escape
	maxIndent = 32 // blanks after a line break that are taken to be its own
	// lead is in how many bytes of a pattern, from its beginning, a gram is looked
	// for: maxStride-1+gram. Where no escape is among them the plain search finds
	// the gram.
	lead = maxStride - 1 + gram
	// linesLead is where lead bytes are found over line breaks: nobody writes lines so
	// short that more are needed.
	linesLead = lead + 3*maxIndent
	// maxWork is how many bytes are read on for each of the text, at most.
	maxWork = 32
	// windowRoom is how much of a text that is full of escapes is read at once.
	windowRoom = 4 << 10
	// overlap is what two such parts have in common: at least lead.
	overlap = 32
	// shortBreak: a line that ends in fewer bytes of a secret is not held back, as
	// otherwise text that comes line by line would come a line late. They are
	// looked at again with what follows.
	shortBreak = 4
)

// view is a way to read a text in which some bytes stand for others. What it finds
// has at least one escape in it: the rest is found without it.
type view struct {
	form   Forms
	intro  [256]bool
	second [256]bool // the bytes that may follow one of intro
	// chars are the bytes of intro.
	chars []byte
	// undo appends what the escape at the beginning of b stands for. It returns the
	// escape's length: 0 when there is none, -1 when b ends within one.
	undo func(dst, b []byte) ([]byte, int)
}

var views = []*view{
	newView(Lines, "\n\r", nil, func(c byte) bool { return isEncoded(c) || c == '\n' || c == ' ' || c == '\t' }),
	newView(Percent, "%", undoPercent, func(c byte) bool { return digits[c] < 16 || c|0x20 == 'u' }),
	newView(JSON, `\`, undoBackslash, func(byte) bool { return true }),
	newView(HTML, "&", undoReference, func(c byte) bool { return isAlnum(c) || c == '#' }),
	newView(Quoted, "=", undoQuoted, func(c byte) bool { return digits[c] < 16 || c == '\n' || c == '\r' }),
}

// justLF is the view of lines, for a text without CR.
var justLF = newView(Lines, "\n", nil, func(c byte) bool { return isEncoded(c) || c == ' ' || c == '\t' })

func newView(form Forms, chars string, undo func(dst, b []byte) ([]byte, int), second func(c byte) bool) *view {
	v := &view{form: form, chars: []byte(chars), undo: undo}
	for c := range v.second {
		v.second[c] = second(byte(c))
	}
	for _, c := range v.chars {
		v.intro[c] = true
	}
	return v
}

// next is the place of the next byte at or after i that may begin an escape, or -1.
func (v *view) next(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	at := bytes.IndexByte(b[i:], v.chars[0])
	for _, c := range v.chars[1:] {
		rest := b[i:]
		if at >= 0 {
			rest = rest[:at]
		}
		if other := bytes.IndexByte(rest, c); other >= 0 {
			at = other
		}
	}
	if at < 0 {
		return -1
	}
	return i + at
}

// reading is a part of a text as a view reads it: each byte with its place.
type reading struct {
	few   [8]byte // what an escape stands for
	out   []byte
	at    []int   // where in the text the byte, or its escape, begins
	n     []uint8 // how many bytes it takes there
	lines bool    // some byte ends a line
	next  int     // where in the text reading goes on
	more  bool    // the text goes on after its end: an escape that it ends in is not read
	// partial is where in the text such an escape begins, -1 without one.
	partial int
}

func (d *reading) reset(at int, more bool) {
	d.out, d.at, d.n = d.out[:0], d.at[:0], d.n[:0]
	d.lines, d.next, d.more, d.partial = false, at, more, -1
}

func (d *reading) add(c byte, at, n int) {
	d.out, d.at, d.n = append(d.out, c), append(d.at, at), append(d.n, uint8(n))
	if c == '\n' || c == '\r' {
		d.lines = true
	}
}

// end is where in the text the first k bytes end.
func (d *reading) end(k int) int { return d.at[k-1] + int(d.n[k-1]) }

// atBreak says whether b ends in a line break that was left out.
func (d *reading) atBreak(b []byte) bool {
	return d.partial < 0 && d.end(len(d.out)) < len(b)
}

// keepLast drops all but the last k bytes.
func (d *reading) keepLast(k int) {
	if drop := len(d.out) - k; drop > 0 {
		d.out = d.out[:copy(d.out, d.out[drop:])]
		d.at = d.at[:copy(d.at, d.at[drop:])]
		d.n = d.n[:copy(d.n, d.n[drop:])]
		d.lines = bytes.ContainsAny(d.out, "\n\r")
	}
}

// read goes on with b until d has size bytes, b ends, or more than lead bytes were
// added since the last escape and since place busy.
func (v *view) read(d *reading, b []byte, size, busy int) {
	last := len(d.out)
	for d.next < len(b) && len(d.out) < size {
		i := d.next
		if v.intro[b[i]] {
			what, n := v.escape(d.few[:0], b, i)
			if v.undo == nil && n > 0 {
				what, n = b[i:i+1], 1 // see join
			}
			if n < 0 && d.more {
				d.partial, d.next = i, len(b)
				return
			}
			if n > 0 {
				for _, c := range what {
					d.add(c, i, n)
				}
				d.next = i + n
				last = len(d.out)
				continue
			}
		}
		d.add(b[i], i, 1)
		d.next++
		if c := b[i]; i < busy || (c == '\n' || c == '\r') && lineBreak(b, i) > 0 {
			last = len(d.out)
		}
		if len(d.out)-last > lead {
			return
		}
	}
}

// join makes of dst what d holds without its line breaks: one at a time, each with
// the blanks that follow it.
func (d *reading) join(dst *reading) {
	dst.reset(d.next, d.more)
	dst.partial = d.partial
	const (
		text = iota
		afterCR
		afterBreak
	)
	state, blanks := text, 0
	for k, c := range d.out {
		switch {
		case state == text && (c == '\n' || c == '\r') && len(dst.out) > 0:
			if state, blanks = afterBreak, 0; c == '\r' {
				state = afterCR
			}
			continue
		case state == afterCR && c == '\n':
			state = afterBreak
			continue
		case state != text && (c == ' ' || c == '\t') && blanks < maxIndent:
			state = afterBreak
			blanks++
			continue
		}
		state = text
		dst.add(c, d.at[k], int(d.n[k]))
	}
}

// scratch is what a search needs room for.
type scratch struct {
	d    [4]reading // what a window reads, and joined; what is read from one place on, and joined
	few  [maxEscape]byte
	room [linesLead + 2*maxEscape + lead]byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// undoPercent reads %41, and %u0041 as JavaScript's escape writes it.
func undoPercent(dst, b []byte) ([]byte, int) {
	if len(b) > 1 && (b[1] == 'u' || b[1] == 'U') {
		return undoUnit(dst, b, 2, 4)
	}
	v, n := hexDigits(b[1:], 2)
	if n < 2 {
		return dst, short(len(b) == 1+n)
	}
	return append(dst, byte(v)), 3
}

// undoBackslash reads the escapes of JSON and of the languages that write more.
func undoBackslash(dst, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return dst, -1
	}
	switch c := b[1]; c {
	case 'u':
		if len(b) > 2 && b[2] == '{' {
			return undoBraces(dst, b)
		}
		return undoUnit(dst, b, 2, 4)
	case 'U':
		return undoUnit(dst, b, 2, 8)
	case 'x':
		v, n := hexDigits(b[2:], 2)
		if n < 2 {
			return dst, short(len(b) == 2+n)
		}
		return append(dst, byte(v)), 4
	case '0', '1', '2', '3', '4', '5', '6', '7':
		v, n := 0, 1
		for n < len(b) && n < 4 && b[n] >= '0' && b[n] <= '7' {
			v, n = v<<3|int(b[n]-'0'), n+1
		}
		if n < 4 && n == len(b) {
			return dst, -1
		}
		return append(dst, byte(v)), n
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'v':
		return append(dst, '\v'), 2
	case 'a':
		return append(dst, '\a'), 2
	case 'e':
		return append(dst, 0x1b), 2
	case '\n', '\r':
		return dst, 0 // a line goes on
	default:
		return append(dst, c), 2
	}
}

// undoUnit reads an escape of digits hexadecimal digits from place at on, and the
// second half of a pair of surrogates behind it.
func undoUnit(dst, b []byte, at, digits int) ([]byte, int) {
	v, n := hexDigits(b[at:], digits)
	if n < digits {
		return dst, short(len(b) == at+n)
	}
	n += at
	if v&^0x3ff == 0xd800 {
		rest := b[n:]
		if !bytes.HasPrefix(rest, b[:at]) {
			return dst, short(len(rest) < at && bytes.HasPrefix(b, rest))
		}
		low, m := hexDigits(rest[at:], digits)
		if m < digits {
			return dst, short(len(rest) == at+m)
		}
		if low&^0x3ff == 0xdc00 {
			v, n = 0x10000+(v&0x3ff)<<10|low&0x3ff, n+at+m
		}
	}
	return appendRune(dst, v), n
}

// undoBraces reads \u{41}.
func undoBraces(dst, b []byte) ([]byte, int) {
	v, n := hexDigits(b[3:], 8)
	switch end := 3 + n; {
	case end == len(b):
		return dst, -1
	case n == 0 || b[end] != '}':
		return dst, 0
	default:
		return appendRune(dst, v), end + 1
	}
}

// undoReference reads a character reference of HTML.
func undoReference(dst, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return dst, -1
	}
	if b[1] == '#' {
		return undoNumeric(dst, b)
	}
	end := 1
	for end < len(b) && isAlnum(b[end]) {
		end++
	}
	if end == len(b) {
		return dst, short(end < maxEscape)
	}
	if b[end] != ';' || end < 3 {
		return undoBareName(dst, b[:end])
	}
	switch string(b[1:end]) {
	case "amp":
		return append(dst, '&'), end + 1
	case "lt":
		return append(dst, '<'), end + 1
	case "gt":
		return append(dst, '>'), end + 1
	case "quot":
		return append(dst, '"'), end + 1
	case "apos":
		return append(dst, '\''), end + 1
	case "nbsp":
		return append(dst, 0xc2, 0xa0), end + 1
	}
	name := string(b[:end+1])
	what := html.UnescapeString(name)
	if what == name || len(what) > 8 {
		return dst, 0
	}
	return append(dst, what...), end + 1
}

// undoBareName reads the old names, which need no semicolon.
func undoBareName(dst, b []byte) ([]byte, int) {
	for _, o := range [...]struct {
		name string
		c    byte
	}{{"&amp", '&'}, {"&lt", '<'}, {"&gt", '>'}, {"&quot", '"'}, {"&AMP", '&'}, {"&LT", '<'}, {"&GT", '>'}, {"&QUOT", '"'}} {
		if bytes.HasPrefix(b, []byte(o.name)) {
			return append(dst, o.c), len(o.name)
		}
	}
	return dst, 0
}

func undoNumeric(dst, b []byte) ([]byte, int) {
	at, v, n := 2, 0, 0
	if len(b) > 2 && b[2]|0x20 == 'x' {
		at = 3
		v, n = hexDigits(b[at:], maxEscape)
	} else {
		for at+n < len(b) && b[at+n] >= '0' && b[at+n] <= '9' {
			v, n = min(v*10+int(b[at+n]-'0'), utf8.MaxRune+1), n+1
		}
	}
	switch end := at + n; {
	case end == len(b):
		return dst, short(end < maxEscape)
	case n == 0 || v == 0:
		return dst, 0
	case b[end] == ';':
		return appendRune(dst, v), end + 1
	default:
		return appendRune(dst, v), end
	}
}

// undoQuoted reads quoted-printable (RFC 2045, section 6.7), soft line breaks too.
func undoQuoted(dst, b []byte) ([]byte, int) {
	switch {
	case len(b) < 2:
		return dst, -1
	case b[1] == '\n':
		return dst, 2
	case b[1] == '\r' && len(b) == 2:
		return dst, -1
	case b[1] == '\r' && b[2] == '\n':
		return dst, 3
	}
	v, n := hexDigits(b[1:], 2)
	if n < 2 {
		return dst, short(len(b) == 1+n)
	}
	return append(dst, byte(v)), 3
}

// short is the length of what is no escape: -1 when it may become one.
func short(may bool) int {
	if may {
		return -1
	}
	return 0
}

func appendRune(dst []byte, v int) []byte {
	if v > utf8.MaxRune {
		v = utf8.RuneError
	}
	return utf8.AppendRune(dst, rune(v))
}

// hexDigits reads up to most digits; v stays in the range of an int.
func hexDigits(b []byte, most int) (v, n int) {
	for n < len(b) && n < most {
		d := digits[b[n]]
		if d > 15 {
			break
		}
		v, n = min(v<<4|int(d), utf8.MaxRune+1), n+1
	}
	return v, n
}

var digits = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9':
			t[c] = uint8(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f' && c < 0x80:
			t[c] = uint8(c|0x20-'a') + 10
		default:
			t[c] = 0xff
		}
	}
	return t
}()

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// isEncoded says whether c is of an alphabet of base64.
func isEncoded(c byte) bool { return encoded[c] }

var encoded = func() (t [256]bool) {
	for c := range t {
		t[c] = isAlnum(byte(c)) || c == '+' || c == '/' || c == '-' || c == '_'
	}
	return t
}()
