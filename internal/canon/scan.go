package canon

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// maxSafe is 2^53−1, the largest integer that every JSON reader keeps exact.
const maxSafe = 1<<53 - 1

// scanner walks one document. In canonical form equal names are neighbours, so
// comparing each with the one before finds duplicates and disorder at once; in
// any other form the names of an object are collected.
type scanner struct {
	data      []byte
	pos       int
	depth     int
	lim       Limits
	canonical bool
	anyNumber bool
	onMember  func(name, value []byte) // members of the outermost object
}

func (s *scanner) fail(r Reason, at int, detail string) error {
	return &Error{Reason: r, Offset: at, Detail: detail}
}

func (s *scanner) document() error {
	if len(s.data) > s.lim.Bytes {
		return s.fail(ReasonSize, s.lim.Bytes, "document is longer than the limit")
	}
	s.space()
	if err := s.value(); err != nil {
		return err
	}
	s.space()
	if s.pos != len(s.data) {
		return s.fail(ReasonSyntax, s.pos, "bytes after the value")
	}
	return nil
}

// space skips white space. The canonical form has none, so there it stays and is
// stumbled over by whatever comes next.
func (s *scanner) space() {
	if !s.canonical {
		s.skipSpace()
	}
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) value() error {
	switch c := s.peek(); c {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		_, _, err := s.str()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || (c >= '0' && c <= '9') {
			return s.number()
		}
		if s.pos >= len(s.data) {
			return s.fail(ReasonSyntax, s.pos, "document ends where a value should be")
		}
		return s.fail(ReasonSyntax, s.pos, "not a value")
	}
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.fail(ReasonSyntax, s.pos, "not a value")
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) enter() error {
	s.depth++
	if s.depth > s.lim.Depth {
		return s.fail(ReasonDepth, s.pos, "nested deeper than the limit")
	}
	s.pos++
	s.space()
	return nil
}

func (s *scanner) object() error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == '}' {
		return s.leave()
	}
	names := nameSet{scanner: s}
	for n := 1; ; n++ {
		if n > s.lim.Members {
			return s.fail(ReasonSize, s.pos, "more members than the limit")
		}
		if err := s.member(&names); err != nil {
			return err
		}
		more, err := s.next('}')
		if err != nil || !more {
			return err
		}
	}
}

func (s *scanner) member(names *nameSet) error {
	at := s.pos
	if s.peek() != '"' {
		return s.fail(ReasonSyntax, at, "member name expected")
	}
	raw, escaped, err := s.str()
	if err != nil {
		return err
	}
	name := raw
	if escaped {
		name = unescape(raw)
	}
	if err := names.add(name, at); err != nil {
		return err
	}
	s.space()
	if s.peek() != ':' {
		return s.fail(ReasonSyntax, s.pos, "colon expected")
	}
	s.pos++
	s.space()
	start := s.pos
	if err := s.value(); err != nil {
		return err
	}
	if s.depth == 1 && s.onMember != nil {
		s.onMember(name, s.data[start:s.pos])
	}
	return nil
}

func (s *scanner) array() error {
	if err := s.enter(); err != nil {
		return err
	}
	if s.peek() == ']' {
		return s.leave()
	}
	for n := 1; ; n++ {
		if n > s.lim.Members {
			return s.fail(ReasonSize, s.pos, "more elements than the limit")
		}
		if err := s.value(); err != nil {
			return err
		}
		more, err := s.next(']')
		if err != nil || !more {
			return err
		}
	}
}

// next reads what follows a member or element: a comma (true) or the end.
func (s *scanner) next(end byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case end:
		return false, s.leave()
	}
	return false, s.fail(ReasonSyntax, s.pos, "comma or end expected")
}

func (s *scanner) leave() error {
	s.pos++
	s.depth--
	return nil
}

// nameSet notices a name that an object already has.
type nameSet struct {
	scanner *scanner
	last    []byte
	any     bool
	few     [12][]byte // the first names, of which an object seldom has more
	count   int        // of few
	seen    map[string]struct{}
}

func (n *nameSet) add(name []byte, at int) error {
	if n.scanner.canonical {
		if n.any {
			switch c := compareUTF16(n.last, name); {
			case c == 0:
				return &Error{Reason: ReasonDuplicate, Offset: at, Name: string(name)}
			case c > 0:
				return &Error{Reason: ReasonNotCanonical, Offset: at, Name: string(name), Detail: "members out of order"}
			}
		}
		n.last, n.any = name, true
		return nil
	}
	if n.seen == nil {
		if n.count < len(n.few) {
			for _, before := range n.few[:n.count] {
				if bytes.Equal(before, name) {
					return &Error{Reason: ReasonDuplicate, Offset: at, Name: string(name)}
				}
			}
			n.few[n.count] = name
			n.count++
			return nil
		}
		n.seen = make(map[string]struct{}, 4*len(n.few))
		for _, before := range n.few {
			n.seen[string(before)] = struct{}{}
		}
	}
	if _, dup := n.seen[string(name)]; dup {
		return &Error{Reason: ReasonDuplicate, Offset: at, Name: string(name)}
	}
	n.seen[string(name)] = struct{}{}
	return nil
}

// compareUTF16 orders two valid UTF-8 strings by UTF-16 code units (RFC 8785,
// 3.2.3). That is byte order, but for supplementary characters (lead bytes F0
// to F4), whose surrogates D800–DFFF sort before U+E000–U+FFFF (lead bytes EE
// and EF).
func compareUTF16(a, b []byte) int {
	n := min(len(a), len(b))
	for i := 0; i < n; i++ {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		if x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

func (s *scanner) number() error {
	at := s.pos
	neg := s.peek() == '-'
	if neg {
		s.pos++
	}
	first := s.pos
	var v uint64
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		if v <= maxSafe {
			v = v*10 + uint64(c-'0')
		}
		s.pos++
	}
	if s.pos == first || (s.data[first] == '0' && s.pos > first+1) {
		return s.fail(ReasonSyntax, at, "not a JSON number")
	}
	fraction, err := s.fraction(at)
	if err != nil || s.anyNumber {
		return err
	}
	if fraction || (neg && v == 0) {
		return s.fail(ReasonNotInteger, at, "only integers, without fraction, exponent or negative zero")
	}
	if v > maxSafe {
		return s.fail(ReasonNumberRange, at, "outside ±(2^53−1)")
	}
	return nil
}

// fraction reads an optional fraction and exponent.
func (s *scanner) fraction(at int) (bool, error) {
	found := false
	if s.peek() == '.' {
		s.pos++
		found = true
		if !s.digits() {
			return true, s.fail(ReasonSyntax, at, "not a JSON number")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		found = true
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return true, s.fail(ReasonSyntax, at, "not a JSON number")
		}
	}
	return found, nil
}

func (s *scanner) digits() bool {
	first := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > first
}

// skipPlain returns where the next byte is that does not stand for itself in a string,
// eight bytes at a time while all of them do.
func skipPlain(d []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(d) {
		w := binary.LittleEndian.Uint64(d[i:])
		quote, backslash := w^('"'*ones), w^('\\'*ones)
		// A byte below 0x20, equal to one of the two, or from 0x80 on sets a high bit
		// here. Borrows can set more of them, above the first: only whether there is any
		// is asked.
		if ((w-0x20*ones)|(quote-ones)&^quote|(backslash-ones)&^backslash|w)&high != 0 {
			break
		}
		i += 8
	}
	for i < len(d) && plain[d[i]] {
		i++
	}
	return i
}

// plain marks the bytes that stand for themselves in a string: printable ASCII
// without quote and backslash.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return
}()

// str reads a string and returns the bytes between its quotes and whether any
// of them is an escape.
func (s *scanner) str() (raw []byte, escaped bool, err error) {
	d := s.data
	i := s.pos + 1
	start := i
	for i < len(d) {
		i = skipPlain(d, i)
		if i == len(d) {
			break
		}
		c := d[i]
		switch {
		case c == '"':
			s.pos = i + 1
			return d[start:i], escaped, nil
		case c == '\\':
			escaped = true
			n, err := s.escape(i)
			if err != nil {
				return nil, false, err
			}
			i += n
		case c < 0x20:
			return nil, false, s.fail(ReasonSyntax, i, "control character in a string")
		default:
			r, n := utf8.DecodeRune(d[i:])
			if r == utf8.RuneError && n == 1 {
				return nil, false, s.badUTF8(i)
			}
			i += n
		}
	}
	return nil, false, s.fail(ReasonSyntax, len(d), "document ends in a string")
}

// badUTF8 tells a surrogate written as three bytes (CESU-8 style) from other
// invalid bytes.
func (s *scanner) badUTF8(i int) error {
	d := s.data[i:]
	if len(d) >= 2 && d[0] == 0xED && d[1] >= 0xA0 && d[1] <= 0xBF {
		return s.fail(ReasonSurrogate, i, "a surrogate encoded as UTF-8")
	}
	return s.fail(ReasonUTF8, i, "not UTF-8")
}

// escape checks the escape at i and returns its length, 12 for a surrogate
// pair.
func (s *scanner) escape(i int) (int, error) {
	if i+1 >= len(s.data) {
		return 0, s.fail(ReasonSyntax, i, "document ends in an escape")
	}
	switch c := s.data[i+1]; c {
	case '"', '\\', 'b', 't', 'n', 'f', 'r':
		return 2, nil
	case '/':
		if s.canonical {
			return 0, s.fail(ReasonNotCanonical, i, `"/" is not escaped`)
		}
		return 2, nil
	case 'u':
		return s.unicodeEscape(i)
	default:
		return 0, s.fail(ReasonSyntax, i, "unknown escape")
	}
}

func (s *scanner) unicodeEscape(i int) (int, error) {
	r, ok := hex4(s.data, i+2)
	if !ok {
		return 0, s.fail(ReasonSyntax, i, "four hexadecimal digits expected")
	}
	n := 6
	if utf16.IsSurrogate(r) {
		low, ok := rune(0), false
		if i+7 < len(s.data) && s.data[i+6] == '\\' && s.data[i+7] == 'u' {
			low, ok = hex4(s.data, i+8)
		}
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return 0, s.fail(ReasonSurrogate, i, "half of a surrogate pair")
		}
		n = 12
	}
	if s.canonical && !canonicalUnicodeEscape(r, s.data[i+2:i+6]) {
		return 0, s.fail(ReasonNotCanonical, i, "an escape that is not the shortest")
	}
	return n, nil
}

// canonicalUnicodeEscape reports whether \u with these digits is how RFC 8785
// writes r: a control character without short escape, in lower case.
func canonicalUnicodeEscape(r rune, digits []byte) bool {
	switch r {
	case '\b', '\t', '\n', '\f', '\r':
		return false
	}
	return r < 0x20 && !(digits[3] >= 'A' && digits[3] <= 'F')
}

func hex4(d []byte, i int) (rune, bool) {
	if i+4 > len(d) {
		return 0, false
	}
	var r rune
	for _, c := range d[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape decodes the inside of a string that str has accepted.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		c := raw[i+1]
		i += 2
		switch c {
		case 'b':
			out = append(out, '\b')
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'f':
			out = append(out, '\f')
		case 'r':
			out = append(out, '\r')
		case 'u':
			r, _ := hex4(raw, i)
			i += 4
			if utf16.IsSurrogate(r) {
				low, _ := hex4(raw, i+2)
				i += 6
				r = utf16.DecodeRune(r, low)
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	return out
}
