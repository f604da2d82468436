package canon

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// shape is what encoding/json would accept for a Go type, as far as member
// names and null are concerned.
type shape struct {
	nullable bool
	fields   map[string]*lazyShape // of a struct, by exact name
	folded   map[string]struct{}   // the same names, case folded
	elem     *lazyShape            // of a slice, array or map
	required int                   // fields without omitempty
}

// lazyShape breaks the cycle of recursive types.
type lazyShape struct {
	typ       reflect.Type
	omitempty bool
}

func (l *lazyShape) get() *shape {
	if l == nil {
		return nil
	}
	return shapeOf(l.typ)
}

var shapes sync.Map // reflect.Type → *shape

var (
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
		t = t.Elem()
	}
	p := reflect.PointerTo(t)
	if p.Implements(jsonUnmarshaler) {
		s.nullable = true // the type decides for itself
		return s
	}
	if p.Implements(textUnmarshaler) {
		return s
	}
	switch t.Kind() {
	case reflect.Interface:
		s.nullable = true
	case reflect.Slice, reflect.Map:
		s.nullable = true
		s.elem = &lazyShape{typ: t.Elem()}
	case reflect.Array:
		s.elem = &lazyShape{typ: t.Elem()}
	case reflect.Struct:
		s.fields = map[string]*lazyShape{}
		addFields(s.fields, t)
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

func addFields(fields map[string]*lazyShape, t reflect.Type) {
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
				continue
			}
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = &lazyShape{f.Type, strings.Contains(options, "omitempty")}
	}
}

// matcher compares a checked document with a shape.
type matcher struct {
	writer
	open     bool // unknown members are skipped
	complete bool // members without omitempty must be there
	exact    bool // the others must not be there when they are empty
	unknown  []string
}

// maxUnknown bounds how many unknown paths are kept.
const maxUnknown = 64

func (m *matcher) match(s *shape, path string) error {
	m.skip()
	switch m.src[m.pos] {
	case '{':
		return m.object(s, path)
	case '[':
		return m.array(s, path)
	case '"':
		m.str()
	case 'n':
		if s != nil && !s.nullable {
			return &Error{Reason: ReasonType, Offset: m.pos, Name: path, Detail: "null is not allowed here"}
		}
		m.pos += len("null")
	default:
		for m.pos < len(m.src) && !strings.ContainsRune(",:]} \t\n\r", rune(m.src[m.pos])) {
			m.pos++
		}
	}
	return nil
}

func (m *matcher) array(s *shape, path string) error {
	var elem *shape
	if s != nil {
		elem = s.elem.get()
	}
	m.pos++
	for m.skip(); m.src[m.pos] != ']'; m.skip() {
		if err := m.match(elem, path+"[]"); err != nil {
			return err
		}
	}
	m.pos++
	return nil
}

func (m *matcher) object(s *shape, path string) error {
	start := m.pos
	m.pos++
	required := 0
	var strangers map[string]struct{}
	for m.skip(); m.src[m.pos] != '}'; m.skip() {
		at := m.pos
		name := string(m.str())
		next := name
		if path != "" {
			next = path + "." + name
		}
		field, known := s.member(name)
		if !known {
			if strangers == nil {
				strangers = map[string]struct{}{}
			}
			if err := m.stranger(s, strangers, fold(name), next, at); err != nil {
				return err
			}
		}
		m.skip()
		value := m.pos
		if err := m.match(field.get(), next); err != nil {
			return err
		}
		switch {
		case field == nil || s.fields == nil:
		case !field.omitempty:
			required++
		case m.exact && empty(m.src[value:m.pos]):
			return &Error{Reason: ReasonMissingMember, Offset: at, Name: next, Detail: "an empty member is left out, not written"}
		}
	}
	m.pos++
	if m.complete && s != nil && required < s.required {
		return &Error{Reason: ReasonMissingMember, Offset: start, Name: path, Detail: "members are missing"}
	}
	return nil
}

// empty reports whether encoding/json leaves out a canonical value by omitempty.
func empty(value []byte) bool {
	switch string(value) {
	case `""`, "0", "false", "null", "[]", "{}":
		return true
	}
	return false
}

// member returns a field by its exact name. A nil field is one where anything
// goes.
func (s *shape) member(name string) (field *lazyShape, known bool) {
	switch {
	case s == nil:
		return nil, true
	case s.fields != nil:
		f, ok := s.fields[name]
		return f, ok
	}
	return s.elem, true
}

// stranger judges a name that the shape does not have, given in folded form.
func (m *matcher) stranger(s *shape, before map[string]struct{}, folded, path string, at int) error {
	if _, ok := s.folded[folded]; ok {
		return &Error{Reason: ReasonCaseFolded, Offset: at, Name: path, Detail: "differs from a known member only in case"}
	}
	if _, ok := before[folded]; ok {
		return &Error{Reason: ReasonCaseFolded, Offset: at, Name: path, Detail: "two members differ only in case"}
	}
	before[folded] = struct{}{}
	if !m.open {
		return &Error{Reason: ReasonUnknownMember, Offset: at, Name: path}
	}
	if len(m.unknown) < maxUnknown {
		m.unknown = append(m.unknown, path)
	}
	return nil
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
