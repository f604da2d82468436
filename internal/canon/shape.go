package canon

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
)

// shape is what encoding/json would accept for a Go type, as far as member
// names and null are concerned, and how a value of the type is read.
type shape struct {
	how      reading
	pointers int // between the type and what is read
	nullable bool
	fields   map[string]*lazyShape // of a struct, by exact name
	folded   map[string]struct{}   // the same names, case folded
	elem     *lazyShape            // of a slice, array or map
	required int                   // fields without omitempty
}

// reading is how a value of a type is read.
type reading byte

// Everything but the plain types is left to encoding/json.
const (
	readByJSON reading = iota
	readRaw
	readText
	readBool
	readInt
	readList
	readMap
	readStruct
)

// lazyShape breaks the cycle of recursive types.
type lazyShape struct {
	typ       reflect.Type
	field     int // number of the struct's field
	omitempty bool
	known     atomic.Pointer[shape]
}

func (l *lazyShape) get() *shape {
	if l == nil {
		return nil
	}
	s := l.known.Load()
	if s == nil {
		s = shapeOf(l.typ)
		l.known.Store(s)
	}
	return s
}

var shapes sync.Map // reflect.Type → *shape

var (
	rawMessage      = reflect.TypeFor[json.RawMessage]()
	jsonNumber      = reflect.TypeFor[json.Number]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := buildShape(t)
	shapes.Store(t, s)
	return s
}

func buildShape(t reflect.Type) *shape {
	s := &shape{}
	for t.Kind() == reflect.Pointer {
		s.nullable = true
		s.pointers++
		t = t.Elem()
	}
	p := reflect.PointerTo(t)
	if p.Implements(jsonUnmarshaler) {
		s.nullable = true // the type decides for itself
		if t == rawMessage {
			s.how = readRaw
		}
		return s
	}
	if p.Implements(textUnmarshaler) {
		return s
	}
	switch t.Kind() {
	case reflect.String:
		if t != jsonNumber {
			s.how = readText
		}
	case reflect.Bool:
		s.how = readBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.how = readInt
	case reflect.Interface:
		s.nullable = true
	case reflect.Slice:
		s.nullable = true
		s.elem = &lazyShape{typ: t.Elem()}
		if t.Elem().Kind() != reflect.Uint8 { // that is base64
			s.how = readList
		}
	case reflect.Map:
		s.nullable = true
		s.elem = &lazyShape{typ: t.Elem()}
		if t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
			s.how = readMap
		}
	case reflect.Array:
		s.elem = &lazyShape{typ: t.Elem()}
	case reflect.Struct:
		s.fields = map[string]*lazyShape{}
		if addFields(s.fields, t) {
			s.how = readStruct
		}
		s.folded = make(map[string]struct{}, len(s.fields))
		for name := range s.fields {
			s.folded[fold(name)] = struct{}{}
			if !s.fields[name].omitempty {
				s.required++
			}
		}
	}
	return s
}

// addFields collects the members of a struct. It reports whether they are plain:
// each a field of the struct itself, under a name that no other has.
func addFields(fields map[string]*lazyShape, t reflect.Type) bool {
	plain := true
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				addFields(fields, ft)
				plain = false
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		_, twice := fields[name]
		plain = plain && !twice && !f.Anonymous && !slices.Contains(strings.Split(options, ","), "string")
		fields[name] = &lazyShape{typ: f.Type, field: i, omitempty: strings.Contains(options, "omitempty")}
	}
	return plain
}

// empty reports whether encoding/json leaves out a canonical value by omitempty.
func empty(value []byte) bool {
	switch string(value) {
	case `""`, "0", "false", "null", "[]", "{}":
		return true
	}
	return false
}

// fold maps every rune to the smallest of its Unicode case orbit, which is the
// equality by which encoding/json matches names.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}
