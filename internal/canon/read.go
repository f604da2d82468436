package canon

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// reader compares a checked document with a shape and reads it in the same pass.
// It reads the plain types itself, as encoding/json does (FuzzUnmarshal holds it
// to that), and gives it every other.
type reader struct {
	writer
	open     bool // unknown members are skipped
	complete bool // members without omitempty must be there
	exact    bool // the others must not be there when they are empty
	unknown  []string
	names    [][]byte // of the members that lead here; nil is an element of an array
	mismatch bool     // a value does not fit its type
}

// maxUnknown bounds how many unknown paths are kept.
const maxUnknown = 64

// path names the place in the document, "battery.vectors[].outcome".
func (r *reader) path() string {
	var b strings.Builder
	for _, name := range r.names {
		switch {
		case name == nil:
			b.WriteString("[]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.Write(name)
	}
	return b.String()
}

// value compares and reads one value. v is where it goes, or the zero Value where
// it is only compared.
func (r *reader) value(s *shape, v reflect.Value) error {
	r.skip()
	start := r.pos
	null := r.src[start] == 'n'
	if !v.IsValid() || null && (s.pointers > 0 || s.how != readByJSON && s.how != readRaw) {
		return r.compare(s, reflect.Value{})
	}
	for range s.pointers {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if s.how != readByJSON && s.how != readRaw {
		return r.compare(s, v)
	}
	if err := r.compare(s, reflect.Value{}); err != nil {
		return err
	}
	if s.how == readRaw {
		v.SetBytes(bytes.Clone(r.src[start:r.pos]))
		return nil
	}
	r.mismatch = r.mismatch || json.Unmarshal(r.src[start:r.pos], v.Addr().Interface()) != nil
	return nil
}

// fits tells whether a value is to be read as a type is; one that is not only
// compared and has another type is a mismatch.
func (r *reader) fits(s *shape, v reflect.Value, how reading) bool {
	if !v.IsValid() {
		return false
	}
	r.mismatch = r.mismatch || s.how != how
	return s.how == how
}

func (r *reader) compare(s *shape, v reflect.Value) error {
	switch c := r.src[r.pos]; c {
	case '{':
		return r.object(s, v)
	case '[':
		return r.array(s, v)
	case '"':
		if raw := r.str(); r.fits(s, v, readText) {
			v.SetString(string(raw))
		}
	case 'n':
		if s != nil && !s.nullable {
			return &Error{Reason: ReasonType, Offset: r.pos, Name: r.path(), Detail: "null is not allowed here"}
		}
		r.pos += len("null")
	case 't', 'f':
		r.word()
		if r.fits(s, v, readBool) {
			v.SetBool(c == 't')
		}
	default:
		if word := r.word(); r.fits(s, v, readInt) {
			n, err := strconv.ParseInt(string(word), 10, 64)
			if err != nil || v.OverflowInt(n) {
				r.mismatch = true
				break
			}
			v.SetInt(n)
		}
	}
	return nil
}

// word is a number, true or false.
func (r *reader) word() []byte {
	start := r.pos
	for r.pos < len(r.src) && strings.IndexByte(",:]} \t\n\r", r.src[r.pos]) < 0 {
		r.pos++
	}
	return r.src[start:r.pos]
}

func (r *reader) array(s *shape, v reflect.Value) error {
	var elem *shape
	if s != nil {
		elem = s.elem.get()
	}
	read := r.fits(s, v, readList)
	if read {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	r.names = append(r.names, nil)
	r.pos++
	n := 0
	for r.skip(); r.src[r.pos] != ']'; r.skip() {
		var to reflect.Value
		if read {
			if n == v.Cap() {
				v.Grow(1)
			}
			v.SetLen(n + 1)
			to = v.Index(n)
		}
		if err := r.value(elem, to); err != nil {
			return err
		}
		n++
	}
	r.pos++
	r.names = r.names[:len(r.names)-1]
	return nil
}

func (r *reader) object(s *shape, v reflect.Value) error {
	start := r.pos
	into := r.target(s, v)
	r.pos++
	required := 0
	var strangers map[string]struct{}
	for r.skip(); r.src[r.pos] != '}'; r.skip() {
		at := r.pos
		name := r.str()
		field, known := s.member(name)
		r.names = append(r.names, name)
		if !known {
			if strangers == nil {
				strangers = map[string]struct{}{}
			}
			if err := r.stranger(s, strangers, fold(string(name)), at); err != nil {
				return err
			}
		}
		r.skip()
		value := r.pos
		to := into.place(field)
		if err := r.value(field.get(), to); err != nil {
			return err
		}
		into.put(name, to)
		switch {
		case field == nil || s.fields == nil:
		case !field.omitempty:
			required++
		case r.exact && empty(r.src[value:r.pos]):
			return &Error{Reason: ReasonMissingMember, Offset: at, Name: r.path(), Detail: "an empty member is left out, not written"}
		}
		r.names = r.names[:len(r.names)-1]
	}
	r.pos++
	if r.complete && s != nil && required < s.required {
		return &Error{Reason: ReasonMissingMember, Offset: start, Name: r.path(), Detail: "members are missing"}
	}
	return nil
}

// target is a struct or map that is being read, or neither.
type target struct{ fields, entries reflect.Value }

func (r *reader) target(s *shape, v reflect.Value) (t target) {
	switch {
	case !v.IsValid():
	case s.how == readStruct:
		t.fields = v
	case r.fits(s, v, readMap):
		t.entries = reflect.MakeMap(v.Type())
		v.Set(t.entries)
	}
	return t
}

// place is where a member's value goes.
func (t target) place(field *lazyShape) reflect.Value {
	switch {
	case t.entries.IsValid():
		return reflect.New(t.entries.Type().Elem()).Elem()
	case t.fields.IsValid() && field != nil:
		return t.fields.Field(field.field)
	}
	return reflect.Value{}
}

// put stores what was read into a map.
func (t target) put(name []byte, v reflect.Value) {
	if t.entries.IsValid() {
		t.entries.SetMapIndex(reflect.ValueOf(string(name)).Convert(t.entries.Type().Key()), v)
	}
}

// member returns a field by its exact name. A nil field is one where anything
// goes.
func (s *shape) member(name []byte) (field *lazyShape, known bool) {
	switch {
	case s == nil:
		return nil, true
	case s.fields != nil:
		f, ok := s.fields[string(name)]
		return f, ok
	}
	return s.elem, true
}

// stranger judges a name that the shape does not have, given in folded form.
func (r *reader) stranger(s *shape, before map[string]struct{}, folded string, at int) error {
	if _, ok := s.folded[folded]; ok {
		return &Error{Reason: ReasonCaseFolded, Offset: at, Name: r.path(), Detail: "differs from a known member only in case"}
	}
	if _, ok := before[folded]; ok {
		return &Error{Reason: ReasonCaseFolded, Offset: at, Name: r.path(), Detail: "two members differ only in case"}
	}
	before[folded] = struct{}{}
	if !r.open {
		return &Error{Reason: ReasonUnknownMember, Offset: at, Name: r.path()}
	}
	if len(r.unknown) < maxUnknown {
		r.unknown = append(r.unknown, r.path())
	}
	return nil
}
