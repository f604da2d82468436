package canon

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Marshal returns v in canonical form. v is encoded as encoding/json does, so
// its struct tags hold; strings with invalid UTF-8, fractions and integers
// outside ±(2^53−1) are refused instead of being changed.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, &Error{Reason: ReasonUnmarshallable, Detail: err.Error()}
	}
	data := buf.Bytes()
	// encoding/json writes an invalid byte as the escape \ufffd and a genuine
	// U+FFFD as itself, so the escape gives the replaced byte away.
	if i := replacement(data); i >= 0 {
		return nil, &Error{Reason: ReasonUTF8, Offset: i, Detail: "a string holds invalid UTF-8"}
	}
	// encoding/json writes valid JSON, so writing it anew is safe, and checking
	// the result finds the rest: fractions, large numbers, members twice. Escapes
	// may come from a json.RawMessage and hide half a surrogate pair.
	lim := Limits{Bytes: len(data) + 1}
	if bytes.Contains(data, []byte(`\u`)) {
		return Canonicalize(data, lim)
	}
	out := rewrite(data)
	if err := Check(out, lim); err != nil {
		return nil, err
	}
	return out, nil
}

// replacement finds the escape \ufffd in JSON text, or returns -1. An escaped
// backslash before "ufffd" is no such escape.
func replacement(data []byte) int {
	for i := 0; i+5 < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if string(data[i:i+6]) == `\ufffd` {
			return i
		}
		i++
	}
	return -1
}

// Canonicalize returns the canonical form of a document that CheckStrict
// accepts, and CheckStrict's error for any other.
func Canonicalize(data []byte, l Limits) ([]byte, error) {
	if err := CheckStrict(data, l); err != nil {
		return nil, err
	}
	return rewrite(data), nil
}

// rewrite puts valid JSON into canonical order and escapes.
func rewrite(data []byte) []byte {
	w := writer{src: data, out: make([]byte, 0, len(data))}
	w.value()
	return w.out
}

// writer copies a checked document, sorting members as it goes.
type writer struct {
	src []byte
	pos int
	out []byte
}

func (w *writer) skip() {
	for w.pos < len(w.src) {
		switch w.src[w.pos] {
		case ' ', '\t', '\n', '\r', ',', ':':
			w.pos++
		default:
			return
		}
	}
}

func (w *writer) value() {
	w.skip()
	switch w.src[w.pos] {
	case '{':
		w.object()
	case '[':
		w.array()
	case '"':
		w.out = appendString(w.out, w.str())
	default:
		start := w.pos
		for w.pos < len(w.src) && !bytes.ContainsRune([]byte(",:]} \t\n\r"), rune(w.src[w.pos])) {
			w.pos++
		}
		w.out = append(w.out, w.src[start:w.pos]...)
	}
}

// str returns the decoded string at pos.
func (w *writer) str() []byte {
	start := w.pos + 1
	escaped := false
	w.pos = skipPlain(w.src, start)
	for w.src[w.pos] != '"' {
		if w.src[w.pos] == '\\' {
			escaped = true
			w.pos++
		}
		w.pos = skipPlain(w.src, w.pos+1)
	}
	raw := w.src[start:w.pos]
	w.pos++
	if escaped {
		return unescape(raw)
	}
	return raw
}

func (w *writer) object() {
	type member struct {
		name       []byte
		start, end int
	}
	w.pos++
	base := len(w.out)
	var members []member
	for w.skip(); w.src[w.pos] != '}'; w.skip() {
		m := member{name: w.str(), start: len(w.out)}
		w.out = appendString(w.out, m.name)
		w.out = append(w.out, ':')
		w.value()
		m.end = len(w.out)
		members = append(members, m)
	}
	w.pos++
	written := slices.Clone(w.out[base:])
	slices.SortFunc(members, func(a, b member) int { return compareUTF16(a.name, b.name) })
	w.out = append(w.out[:base], '{')
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, written[m.start-base:m.end-base]...)
	}
	w.out = append(w.out, '}')
}

func (w *writer) array() {
	w.pos++
	w.out = append(w.out, '[')
	first := true
	for w.skip(); w.src[w.pos] != ']'; w.skip() {
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		w.value()
	}
	w.pos++
	w.out = append(w.out, ']')
}

const hexDigits = "0123456789abcdef"

// appendString writes valid UTF-8 as a JSON string with RFC 8785's escapes.
func appendString(out, s []byte) []byte {
	out = append(out, '"')
	for len(s) > 0 {
		c := s[0]
		if c >= utf8.RuneSelf {
			_, n := utf8.DecodeRune(s)
			out = append(out, s[:n]...)
			s = s[n:]
			continue
		}
		s = s[1:]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= 0x20:
			out = append(out, c)
		case c == '\b':
			out = append(out, '\\', 'b')
		case c == '\t':
			out = append(out, '\\', 't')
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\f':
			out = append(out, '\\', 'f')
		case c == '\r':
			out = append(out, '\\', 'r')
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(out, '"')
}
