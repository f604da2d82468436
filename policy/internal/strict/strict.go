// Package strict reads YAML and JSON documents into one plain tree with
// positions. It admits only what both can say: maps with text as keys, lists,
// texts, whole numbers, true, false and null. Anchors, aliases, merge keys, tags,
// several documents, repeated keys, text after the document, and numbers in any
// other notation are refused, because each lets two readers see two documents.
package strict

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a node.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Int
	Text
	List
	Map
	Other // a number that is not whole, a date: something that no key takes
)

// String returns the kind as a message names it.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a whole number", "text", "a list", "a map", "a number or date"}[k]
}

// Node is one value. Text holds the text of Text, Int, Bool and Other.
type Node struct {
	Kind    Kind
	Line    int32 // from 1
	Column  int32 // from 1, in characters
	Text    string
	Items   []Node   // of a List
	Members []Member // of a Map, in the document's order; no name twice
}

// Member is a key of a map and its value.
type Member struct {
	Name   string
	Line   int32
	Column int32
	Value  Node
}

// Get returns the value of a key, or nil.
func (n *Node) Get(name string) *Node {
	for i := range n.Members {
		if n.Members[i].Name == name {
			return &n.Members[i].Value
		}
	}
	return nil
}

// Limits bound a document.
type Limits struct {
	Bytes  int // of the document
	Depth  int // of nesting
	Nodes  int // values in all
	Scalar int // bytes of one text or key
}

// Error says what is wrong, and where.
type Error struct {
	Line    int    // 0: not about one place
	Column  int    // 0: unknown
	Field   string // "allow[3].ports", or ""
	Message string
}

// Error returns "line:column: field: message".
func (e *Error) Error() string {
	field := ""
	if e.Field != "" {
		field = e.Field + ": "
	}
	return fmt.Sprintf("%d:%d: %s%s", e.Line, e.Column, field, e.Message)
}

// Format is the notation of a document.
type Format uint8

// The formats.
const (
	YAML Format = iota
	JSON
)

// FormatOf tells the format by a file's name and, where that says nothing, by
// the first character: a document that begins with a brace is JSON.
func FormatOf(name string, data []byte) Format {
	name = strings.ToLower(name)
	switch {
	case strings.HasSuffix(name, ".json"):
		return JSON
	case strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		return YAML
	case strings.HasPrefix(strings.TrimLeft(string(data[:min(len(data), 512)]), " \t\r\n"), "{"):
		return JSON
	}
	return YAML
}

// Read reads one document. A byte order mark in front is passed over. On an
// error the node is nil.
func Read(format Format, data []byte, l Limits) (*Node, *Error) {
	if len(data) > l.Bytes {
		return nil, &Error{Message: fmt.Sprintf("the document has %d bytes; at most %d are read", len(data), l.Bytes)}
	}
	data = trimBOM(data)
	if line, ok := validText(data); !ok {
		return nil, &Error{Line: line, Column: 1, Message: "the line is not valid UTF-8, or has a NUL"}
	}
	var n *Node
	var err *Error
	if format == JSON {
		n, err = readJSON(data, l)
	} else {
		n, err = readYAML(data, l)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func trimBOM(data []byte) []byte {
	if len(data) >= 3 && data[0] == 0xef && data[1] == 0xbb && data[2] == 0xbf {
		return data[3:]
	}
	return data
}

// validText returns the first line that is not text.
func validText(data []byte) (line int, ok bool) {
	line = 1
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == 0:
			return line, false
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				return line, false
			}
			i += n
		}
	}
	return line, true
}

// checkNames refuses a name that a map has twice.
func checkNames(members []Member) *Error {
	if len(members) < 16 {
		for i := range members {
			for j := range i {
				if members[i].Name == members[j].Name {
					return duplicate(&members[i], &members[j])
				}
			}
		}
		return nil
	}
	seen := make(map[string]int, len(members))
	for i := range members {
		if j, ok := seen[members[i].Name]; ok {
			return duplicate(&members[i], &members[j])
		}
		seen[members[i].Name] = i
	}
	return nil
}

func duplicate(second, first *Member) *Error {
	return &Error{Line: int(second.Line), Column: int(second.Column),
		Message: fmt.Sprintf("the key %.64q is given twice; the first is in line %d", second.Name, first.Line)}
}

// wholeNumber reports whether s is a whole number in plain decimal that every
// JSON reader keeps exactly (RFC 7493): at most 16 digits.
func wholeNumber(s string) bool {
	if s == "-0" {
		return false
	}
	s = strings.TrimPrefix(s, "-")
	if s == "" || len(s) > 16 || s[0] == '0' && len(s) > 1 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) < 16 || s <= "9007199254740991"
}
