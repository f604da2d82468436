package strict

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads JSON (RFC 8259) and keeps count of lines and columns, which
// encoding/json does not.
type jsonReader struct {
	src    []byte
	pos    int
	line   int
	limits Limits
	nodes  int

	// The column of colPos is col. Counting goes on from there, because a whole
	// document may be one line.
	colPos, col int
}

func readJSON(data []byte, l Limits) (*Node, *Error) {
	r := jsonReader{src: data, line: 1, col: 1, limits: l}
	n := new(Node)
	r.space()
	if r.pos == len(r.src) {
		return nil, r.fail("the document is empty")
	}
	if err := r.value(n, 1); err != nil {
		return nil, err
	}
	r.space()
	if r.pos < len(r.src) {
		return nil, r.fail("something follows the end of the document")
	}
	return n, nil
}

// column returns the column of pos, in characters. pos never goes back over a
// line's end.
func (r *jsonReader) column() int {
	if r.pos < r.colPos {
		return max(1, r.col-utf8.RuneCount(r.src[r.pos:r.colPos]))
	}
	r.col += utf8.RuneCount(r.src[r.colPos:r.pos])
	r.colPos = r.pos
	return r.col
}

func (r *jsonReader) fail(format string, args ...any) *Error {
	return &Error{Line: r.line, Column: r.column(), Message: fmt.Sprintf(format, args...)}
}

func (r *jsonReader) space() {
	for ; r.pos < len(r.src); r.pos++ {
		switch r.src[r.pos] {
		case '\n':
			r.line, r.col, r.colPos = r.line+1, 1, r.pos+1
		case ' ', '\t', '\r':
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (r *jsonReader) peek() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0
}

func (r *jsonReader) value(n *Node, depth int) *Error {
	r.nodes++
	if r.nodes > r.limits.Nodes {
		return r.fail("the document has more than %d values", r.limits.Nodes)
	}
	if depth > r.limits.Depth {
		return r.fail("the document is nested deeper than %d", r.limits.Depth)
	}
	n.Line, n.Column = int32(r.line), int32(r.column())
	switch c := r.peek(); {
	case c == '{':
		return r.object(n, depth)
	case c == '[':
		return r.array(n, depth)
	case c == '"':
		n.Kind = Text
		var err *Error
		n.Text, err = r.text()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return r.number(n)
	case c == 0 && r.pos >= len(r.src):
		return r.fail("the document ends in the middle")
	}
	for _, w := range words {
		if rest := r.src[r.pos:]; len(rest) >= len(w.text) && string(rest[:len(w.text)]) == w.text {
			n.Kind, n.Text = w.kind, w.text
			r.pos += len(w.text)
			return nil
		}
	}
	return r.fail("not JSON: a value is expected here")
}

var words = [...]struct {
	text string
	kind Kind
}{{"true", Bool}, {"false", Bool}, {"null", Null}}

func (r *jsonReader) object(n *Node, depth int) *Error {
	n.Kind = Map
	r.pos++
	r.space()
	if r.peek() == '}' {
		r.pos++
		return nil
	}
	for {
		r.space()
		if r.peek() != '"' {
			return r.fail("not JSON: a key in double quotes is expected here")
		}
		m := Member{Line: int32(r.line), Column: int32(r.column())}
		var err *Error
		if m.Name, err = r.text(); err != nil {
			return err
		}
		r.space()
		if r.peek() != ':' {
			return r.fail("not JSON: a colon is expected here")
		}
		r.pos++
		r.space()
		n.Members = append(n.Members, m)
		if err := r.value(&n.Members[len(n.Members)-1].Value, depth+1); err != nil {
			return err
		}
		more, err := r.more('}')
		if err != nil {
			return err
		}
		if !more {
			return checkNames(n.Members)
		}
	}
}

func (r *jsonReader) array(n *Node, depth int) *Error {
	n.Kind = List
	r.pos++
	r.space()
	if r.peek() == ']' {
		r.pos++
		return nil
	}
	for {
		r.space()
		n.Items = append(n.Items, Node{})
		if err := r.value(&n.Items[len(n.Items)-1], depth+1); err != nil {
			return err
		}
		more, err := r.more(']')
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

// more reads a comma, or the end of an object or array.
func (r *jsonReader) more(end byte) (bool, *Error) {
	r.space()
	switch r.peek() {
	case ',':
		r.pos++
		return true, nil
	case end:
		r.pos++
		return false, nil
	}
	return false, r.fail("not JSON: a comma or %c is expected here", end)
}

func (r *jsonReader) number(n *Node) *Error {
	start := r.pos
	for r.pos < len(r.src) && strings.IndexByte("+-.0123456789eE", r.src[r.pos]) >= 0 {
		r.pos++
	}
	n.Text = string(r.src[start:r.pos])
	if !wholeNumber(n.Text) {
		r.pos = start
		return r.fail("the number %.32q is not a plain whole number, or too large", n.Text)
	}
	n.Kind = Int
	return nil
}

// text reads a string that begins at pos.
func (r *jsonReader) text() (string, *Error) {
	start := r.pos + 1
	for i := start; i < len(r.src); i++ {
		switch c := r.src[i]; {
		case c == '"':
			if i-start > r.limits.Scalar {
				return "", r.fail("a text of %d bytes; at most %d are read", i-start, r.limits.Scalar)
			}
			r.pos = i + 1
			return string(r.src[start:i]), nil
		case c == '\\':
			return r.escaped(start, i)
		case c < 0x20:
			r.pos = i
			return "", r.fail("not JSON: a control character in a text; escape it")
		}
	}
	return "", r.fail("not JSON: the text is not closed")
}

var simpleEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads on from the first backslash of a string.
func (r *jsonReader) escaped(start, i int) (string, *Error) {
	out := append([]byte(nil), r.src[start:i]...)
	for i < len(r.src) {
		c := r.src[i]
		switch {
		case c == '"':
			r.pos = i + 1
			return string(out), nil
		case c < 0x20:
			r.pos = i
			return "", r.fail("not JSON: a control character in a text; escape it")
		case c != '\\':
			out = append(out, c)
			i++
		case i+1 < len(r.src) && r.src[i+1] == 'u':
			v, size := r.unicode(i)
			if size == 0 {
				r.pos = i
				return "", r.fail("not JSON: a broken \\u escape, or half of a surrogate pair")
			}
			out = utf8.AppendRune(out, v)
			i += size
		default:
			var e byte
			if i+1 < len(r.src) {
				e = simpleEscapes[r.src[i+1]]
			}
			if e == 0 {
				r.pos = i
				return "", r.fail("not JSON: an unknown escape")
			}
			out = append(out, e)
			i += 2
		}
		if len(out) > r.limits.Scalar {
			return "", r.fail("a text longer than %d bytes", r.limits.Scalar)
		}
	}
	return "", r.fail("not JSON: the text is not closed")
}

// unicode reads the \u escape at i, both halves of a surrogate pair. size 0
// means that it is none, or NUL.
func (r *jsonReader) unicode(i int) (v rune, size int) {
	v, ok := r.hex4(i)
	switch {
	case !ok || v == 0:
		return 0, 0
	case !utf16.IsSurrogate(v):
		return v, 6
	}
	low, ok := r.hex4(i + 6)
	if v = utf16.DecodeRune(v, low); !ok || v == utf8.RuneError {
		return 0, 0
	}
	return v, 12
}

func (r *jsonReader) hex4(i int) (rune, bool) {
	if i+6 > len(r.src) || r.src[i] != '\\' || r.src[i+1] != 'u' {
		return 0, false
	}
	var v rune
	for _, c := range r.src[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			v = v<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
