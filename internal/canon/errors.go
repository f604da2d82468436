package canon

import (
	"errors"
	"fmt"
)

// Reason says in which way a document is refused.
type Reason string

// The reasons, a closed list.
const (
	ReasonSyntax         Reason = "json-syntax"            // not JSON, or bytes after the value
	ReasonDuplicate      Reason = "json-duplicate-member"  // one name twice in an object, after unescaping
	ReasonUTF8           Reason = "json-invalid-utf8"      // a byte sequence that is not UTF-8
	ReasonSurrogate      Reason = "json-lone-surrogate"    // half of a surrogate pair
	ReasonNotCanonical   Reason = "json-not-canonical"     // valid, but not the RFC 8785 bytes
	ReasonNotInteger     Reason = "json-number-form"       // a fraction, an exponent or "-0"
	ReasonNumberRange    Reason = "json-number-range"      // outside ±(2^53−1)
	ReasonDepth          Reason = "json-too-deep"          // nested deeper than the limit
	ReasonSize           Reason = "json-too-large"         // longer, or with more members, than the limit
	ReasonUnknownMember  Reason = "json-unknown-member"    // a name that the schema does not have
	ReasonCaseFolded     Reason = "json-case-folded-name"  // a name that differs from another only in case
	ReasonMissingMember  Reason = "json-missing-member"    // a required name is absent
	ReasonType           Reason = "json-type"              // a value of another type than the schema's
	ReasonUnmarshallable Reason = "json-cannot-be-written" // a Go value that has no canonical form
)

// Error is a refusal. Offset is the byte at which it was noticed, Name the
// member concerned where there is one.
type Error struct {
	Reason Reason
	Offset int
	Name   string
	Detail string
}

// Error describes the refusal in one line.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s at byte %d", e.Reason, e.Offset)
	if e.Name != "" {
		s += fmt.Sprintf(" (member %.64q)", e.Name)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// ReasonOf returns the reason of the first *Error in err's chain, or "" when
// there is none.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
