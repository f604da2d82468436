package canon

import "errors"

// Check reports whether data is exactly one value in canonical form, within
// the limits. The error is an *Error. When several rules are broken the more
// telling one wins: a document that is out of order and has a duplicate is
// refused for the duplicate.
func Check(data []byte, l Limits) error {
	return CheckMembers(data, l, nil)
}

// CheckMembers is Check, and calls fn with each member of the outermost object
// in passing: its name, unescaped, and its value as written. Both slices are
// valid only during the call. What fn was told counts only if the error is nil.
func CheckMembers(data []byte, l Limits, fn func(name, value []byte)) error {
	s := scanner{data: data, lim: l.withDefaults(), canonical: true, onMember: fn}
	err := s.document()
	if err == nil {
		return nil
	}
	if worse := CheckStrict(data, l); worse != nil {
		return worse
	}
	// Not broken, so what the scanner stumbled over was only the form.
	var e *Error
	if errors.As(err, &e) && e.Reason != ReasonNotCanonical {
		return &Error{Reason: ReasonNotCanonical, Offset: e.Offset, Detail: "white space between tokens"}
	}
	return err
}

// CheckStrict is Check without the demand for canonical bytes: white space,
// order and escapes are free. Everything else that Check refuses it refuses.
func CheckStrict(data []byte, l Limits) error {
	// The canonical form is most often what is there, and duplicates are found in
	// it without collecting names.
	s := scanner{data: data, lim: l.withDefaults(), canonical: true}
	if s.document() == nil {
		return nil
	}
	s = scanner{data: data, lim: l.withDefaults()}
	return s.document()
}

// CheckJSON is CheckStrict for documents of other producers, in which any JSON
// number may stand.
func CheckJSON(data []byte, l Limits) error {
	s := scanner{data: data, lim: l.withDefaults(), anyNumber: true}
	return s.document()
}
