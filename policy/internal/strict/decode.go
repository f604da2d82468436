package strict

import (
	"fmt"
	"strings"
)

// Decoder walks a tree and keeps the path of the value that it is at, for
// messages. Embed it in a decoder that has more to remember.
type Decoder struct {
	path []step
}

// step is a key, or an index where key is "".
type step struct {
	key   string
	index int
}

// Base returns the Decoder itself, for DecodeMap and DecodeList.
func (d *Decoder) Base() *Decoder { return d }

// Walker is a decoder of any kind: what embeds Decoder.
type Walker interface{ Base() *Decoder }

// Field is one key of a map that decodes into a T, by a decoder of type D.
type Field[D Walker, T any] struct {
	Name     string
	Required bool
	Set      func(D, *Node, *T) *Error
}

// Keys is a set of keys, by their index in a table.
type Keys uint64

// DecodeMap decodes n into t by a table of at most 64 keys. It returns the keys
// that n has.
func DecodeMap[D Walker, T any](d D, n *Node, t *T, table []Field[D, T]) (Keys, *Error) {
	base := d.Base()
	if n.Kind != Map {
		return 0, base.WrongKind(n, "a map of keys and values")
	}
	var have Keys
	for i := range n.Members {
		m := &n.Members[i]
		k := indexOf(table, m.Name)
		if k < 0 {
			return 0, base.unknownKey(m, NamesOf(table))
		}
		have |= 1 << k
		base.Push(m.Name)
		if m.Value.Kind == Null {
			return 0, base.Fail(&m.Value, "has no value; give one or remove the key")
		}
		if err := table[k].Set(d, &m.Value, t); err != nil {
			return 0, err
		}
		base.Pop()
	}
	for i := range table {
		if table[i].Required && have&(1<<i) == 0 {
			return 0, base.Fail(n, "the key %q is missing", table[i].Name)
		}
	}
	return have, nil
}

// DecodeList decodes each element of a list of at most most elements.
func DecodeList[D Walker, T any](d D, n *Node, most int, out *[]T, one func(D, *Node, *T) *Error) *Error {
	return d.Base().List(n, most, func(n *Node) *Error {
		var t T
		if err := one(d, n, &t); err != nil {
			return err
		}
		*out = append(*out, t)
		return nil
	})
}

// Has reports whether a map had a key of its table.
func Has[D Walker, T any](k Keys, table []Field[D, T], name string) bool {
	i := indexOf(table, name)
	return i >= 0 && k&(1<<i) != 0
}

func indexOf[D Walker, T any](table []Field[D, T], name string) int {
	for i := range table {
		if table[i].Name == name {
			return i
		}
	}
	return -1
}

// NamesOf returns the keys of a table.
func NamesOf[D Walker, T any](table []Field[D, T]) []string {
	out := make([]string, len(table))
	for i := range table {
		out[i] = table[i].Name
	}
	return out
}

// Push says that the decoder goes to the value of a key.
func (d *Decoder) Push(key string) { d.path = append(d.path, step{key: key}) }

// PushIndex says that the decoder goes to an element of a list.
func (d *Decoder) PushIndex(i int) { d.path = append(d.path, step{index: i}) }

// Pop says that the decoder goes back to what contains the value.
func (d *Decoder) Pop() { d.path = d.path[:len(d.path)-1] }

// Fail returns an error about the value that the decoder is at.
func (d *Decoder) Fail(n *Node, format string, args ...any) *Error {
	var b strings.Builder
	for _, s := range d.path {
		switch {
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return &Error{Line: int(n.Line), Column: int(n.Column), Field: b.String(), Message: fmt.Sprintf(format, args...)}
}

// WrongKind returns an error about a value of another type.
func (d *Decoder) WrongKind(n *Node, want string) *Error {
	hint := ""
	if want == "text" && (n.Kind == Int || n.Kind == Bool || n.Kind == Other) {
		hint = fmt.Sprintf("; write %q in quotes", n.Text)
	}
	return d.Fail(n, "wants %s, not %s%s", want, n.Kind, hint)
}

func (d *Decoder) unknownKey(m *Member, known []string) *Error {
	at := Node{Line: m.Line, Column: m.Column}
	if best := closest(m.Name, known); best != "" {
		return d.Fail(&at, "unknown key %.64q; did you mean %q?", m.Name, best)
	}
	return d.Fail(&at, "unknown key %.64q; known here: %s", m.Name, strings.Join(known, ", "))
}
