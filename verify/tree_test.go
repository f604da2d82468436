package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// node is a JSON value that keeps the order of members and lets a test write
// what no encoder would: members twice, values of the wrong type.
type node struct {
	raw   string // of a scalar
	names []string
	elems []*node // values of an object or elements of an array
	kind  byte    // '{', '[' or 0
}

func parseTree(data []byte) *node {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	n, err := readTree(dec)
	if err != nil {
		panic(err)
	}
	return n
}

func readTree(dec *json.Decoder) (*node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	d, ok := tok.(json.Delim)
	if !ok {
		raw, err := json.Marshal(tok)
		return &node{raw: string(raw)}, err
	}
	n := &node{kind: byte(d)}
	for dec.More() {
		if d == '{' {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, name.(string))
		}
		child, err := readTree(dec)
		if err != nil {
			return nil, err
		}
		n.elems = append(n.elems, child)
	}
	_, err = dec.Token()
	return n, err
}

func (n *node) bytes() []byte {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	if n.kind == 0 {
		b.WriteString(n.raw)
		return
	}
	b.WriteByte(n.kind)
	for i, e := range n.elems {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.kind == '{' {
			fmt.Fprintf(b, "%q:", n.names[i])
		}
		e.write(b)
	}
	b.WriteByte(n.kind + 2) // '{'+2 is '}', '['+2 is ']'
}

// mutation is one change of a JSON document.
type mutation struct {
	op   string // flip, drop, duplicate, swap, truncate
	path string // "predicate.battery.vectors[3].outcome"
	data []byte
}

// mutations returns every mutation of a document: of every value one flip and
// one truncation, of every member and element its removal, its doubling and its
// exchange with its neighbour. Those that change nothing are left out.
func mutations(doc []byte) []mutation {
	root := parseTree(doc)
	original := root.bytes()
	var out []mutation
	emit := func(op, path string) {
		if data := root.bytes(); !bytes.Equal(data, original) {
			out = append(out, mutation{op, path, data})
		}
	}
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		if n.kind == 0 {
			raw := n.raw
			for op, changed := range map[string]string{"flip": flip(raw), "truncate": truncate(raw)} {
				n.raw = changed
				emit(op, path)
			}
			n.raw = raw
			return
		}
		for i := range n.elems {
			at := fmt.Sprintf("%s[%d]", path, i)
			if n.kind == '{' {
				at = strings.TrimPrefix(path+"."+n.names[i], ".")
			}
			walk(n.elems[i], at)
			names, elems := n.names, n.elems
			n.elems = slices.Delete(slices.Clone(elems), i, i+1)
			if n.kind == '{' {
				n.names = slices.Delete(slices.Clone(names), i, i+1)
			}
			emit("drop", at)
			n.elems = slices.Insert(slices.Clone(elems), i, elems[i])
			if n.kind == '{' {
				n.names = slices.Insert(slices.Clone(names), i, names[i])
			}
			emit("duplicate", at)
			n.names, n.elems = names, elems
			if i+1 < len(elems) {
				n.elems = slices.Clone(elems)
				n.elems[i], n.elems[i+1] = elems[i+1], elems[i]
				emit("swap", at)
				n.elems = elems
			}
		}
		if len(n.elems) > 1 {
			names, elems := n.names, n.elems
			n.elems = elems[:len(elems)/2]
			if n.kind == '{' {
				n.names = names[:len(names)/2]
			}
			emit("truncate", path)
			n.names, n.elems = names, elems
		}
	}
	walk(root, "")
	slices.SortStableFunc(out, func(a, b mutation) int { return strings.Compare(a.path+a.op, b.path+b.op) })
	return out
}

// flip returns another value of the same type and form: another digit in a
// number or digest, another letter in a word.
func flip(raw string) string {
	switch {
	case raw == "true":
		return "false"
	case raw == "false":
		return "true"
	case raw == "null":
		return "0"
	case raw[0] != '"':
		return raw[:len(raw)-1] + string(rune('0'+(raw[len(raw)-1]-'0'+1)%10))
	case raw == `""`:
		return `"x"`
	}
	b := []byte(raw)
	for i := len(b) - 2; i > 0; i-- {
		switch c := b[i]; {
		case c >= '0' && c <= '8', c >= 'a' && c <= 'e', c >= 'g' && c < 'z':
			b[i]++
			return string(b)
		case c == '9' || c == 'f' || c == 'z':
			b[i]--
			return string(b)
		}
	}
	return `"x"`
}

func truncate(raw string) string {
	if raw[0] == '"' && len(raw) > 2 {
		return raw[:1+(len(raw)-2)/2] + `"`
	}
	if len(raw) > 1 && raw[0] >= '0' && raw[0] <= '9' {
		return raw[:len(raw)/2]
	}
	return raw
}
