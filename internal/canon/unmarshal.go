package canon

import (
	"encoding/json"
	"reflect"
)

// Unmarshal reads one document in any form that CheckStrict accepts into v, a
// pointer, under the default limits. A member that v's type does not have, one
// that fits only when case is ignored, and null where v has no room for it are
// refused; v is left as it was unless the error is nil.
//
// Members may be absent: a caller for whom the bytes must be complete compares
// Marshal's output with them.
func Unmarshal(data []byte, v any) error {
	return UnmarshalLimits(data, Limits{}, v)
}

// UnmarshalLimits is Unmarshal under other limits.
func UnmarshalLimits(data []byte, l Limits, v any) error {
	if err := CheckStrict(data, l); err != nil {
		return err
	}
	_, err := decode(data, v, reader{})
	return err
}

// UnmarshalExact is for a document that Check has accepted before (for any other
// the result is undefined). It reads only what Marshal would write of v's type:
// no unknown member, none missing but those with omitempty, and none of those
// written out although empty. So no byte of the document escapes whoever looks
// at v.
func UnmarshalExact(data []byte, v any) error {
	_, err := decode(data, v, reader{complete: true, exact: true})
	return err
}

// UnmarshalOpen is Unmarshal for formats that may grow: members that v's type
// does not have are skipped, and their paths returned ("predicate.battery.x").
// A name that fits a known one only when case is ignored is still refused, and
// so is the absence of a member without omitempty: what is not said must not be
// read as zero.
func UnmarshalOpen(data []byte, l Limits, v any) (unknown []string, err error) {
	if err := CheckStrict(data, l); err != nil {
		return nil, err
	}
	return decode(data, v, reader{open: true, complete: true})
}

// UnmarshalJSON is UnmarshalOpen for documents of other producers, in which any
// JSON number may stand.
func UnmarshalJSON(data []byte, l Limits, v any) (unknown []string, err error) {
	if err := CheckJSON(data, l); err != nil {
		return nil, err
	}
	return decode(data, v, reader{open: true})
}

func decode(data []byte, v any, r reader) ([]string, error) {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return nil, &Error{Reason: ReasonType, Detail: "the destination is not a pointer"}
	}
	r.src = data
	fresh := reflect.New(rv.Type().Elem())
	if err := r.value(shapeOf(rv.Type().Elem()), fresh.Elem()); err != nil {
		return nil, err
	}
	if r.mismatch {
		return nil, &Error{Reason: ReasonType, Detail: misfit(data, rv.Type().Elem())}
	}
	rv.Elem().Set(fresh.Elem())
	return r.unknown, nil
}

// misfit says in encoding/json's words which value does not fit its type.
func misfit(data []byte, t reflect.Type) string {
	if err := json.Unmarshal(data, reflect.New(t).Interface()); err != nil {
		return err.Error()
	}
	return "a value does not fit its member"
}
