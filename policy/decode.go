package policy

import "github.com/wallproof/wallproof/policy/internal/strict"

// decoder turns a tree into a Policy.
type decoder struct {
	strict.Decoder
	canonical bool // the document is a canonical form: sources may be absent
	entries   int
}

// field is one key of a map that decodes into a T.
type field[T any] = strict.Field[*decoder, T]

// must makes a key that has to be there, may one that need not.
func must[T any](name string, set func(*decoder, *strict.Node, *T) *strict.Error) field[T] {
	return field[T]{Name: name, Required: true, Set: set}
}

func may[T any](name string, set func(*decoder, *strict.Node, *T) *strict.Error) field[T] {
	return field[T]{Name: name, Set: set}
}

func pos(n *strict.Node) Pos { return Pos{int(n.Line), int(n.Column)} }

func (p Pos) error(msg string) *Error { return &Error{Line: p.Line, Column: p.Column, Message: msg} }
