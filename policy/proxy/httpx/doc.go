// Package httpx reads and writes HTTP/1.1 messages as strictly as a security
// boundary has to (RFC 9110, RFC 9112). Whatever two parsers could read in two
// ways is refused, and nothing is ever passed on as it was received: a message
// is parsed whole, then written anew.
//
// Refused are: bare CR or LF, NUL and other control characters, white space
// before a colon, obsolete line folding, a missing or repeated Host, a repeated
// or non-decimal Content-Length, Content-Length together with
// Transfer-Encoding, any transfer coding but one "chunked", chunk extensions in
// requests, names that become a framing field when '_' is read as '-', and
// heads beyond the limits.
package httpx

import (
	"fmt"
	"strings"
)

// Error is a message that was refused. Status is what the sender should get.
type Error struct {
	Status int    // HTTP status for a request; for a response the gateway answers 502
	Reason string // a reason code, one of the Reason constants
	Detail string // for people; holds nothing of the message's content
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Detail) }

// Reason codes of this package.
const (
	ReasonHeadTooLarge   = "head-too-large"
	ReasonRequestLine    = "bad-request-line"
	ReasonStatusLine     = "bad-status-line"
	ReasonHeader         = "bad-header"
	ReasonObsFold        = "obsolete-line-folding"
	ReasonHostCount      = "duplicate-host"
	ReasonHostMissing    = "host-missing"
	ReasonContentLength  = "bad-content-length"
	ReasonTransferCoding = "bad-transfer-encoding"
	ReasonLengthConflict = "conflicting-length"
	ReasonChunk          = "bad-chunk"
	ReasonExpect         = "bad-expect"
	ReasonConnection     = "bad-connection-header"
	ReasonVersion        = "bad-http-version"
)

func refuse(status int, reason, detail string) *Error {
	return &Error{Status: status, Reason: reason, Detail: detail}
}

// Field is one header field as it was sent, without surrounding white space.
type Field struct{ Name, Value string }

// Header is the fields of a message in their order.
type Header []Field

// Get returns the first value of a field, "" without one.
func (h Header) Get(name string) string {
	for i := range h {
		if strings.EqualFold(h[i].Name, name) {
			return h[i].Value
		}
	}
	return ""
}

// Has says whether the field is there.
func (h Header) Has(name string) bool { return h.Count(name) > 0 }

// Count returns how often the field occurs.
func (h Header) Count(name string) int {
	n := 0
	for i := range h {
		if strings.EqualFold(h[i].Name, name) {
			n++
		}
	}
	return n
}

// Del removes a field, in place.
func (h *Header) Del(name string) {
	h.Filter(func(f Field) bool { return !strings.EqualFold(f.Name, name) })
}

// Filter keeps the fields that keep says yes to, in place.
func (h *Header) Filter(keep func(Field) bool) {
	out := (*h)[:0]
	for _, f := range *h {
		if keep(f) {
			out = append(out, f)
		}
	}
	*h = out
}

// Set replaces every occurrence of a field by one.
func (h *Header) Set(name, value string) {
	h.Del(name)
	*h = append(*h, Field{name, value})
}

// Add appends a field.
func (h *Header) Add(name, value string) { *h = append(*h, Field{name, value}) }

// Tokens calls f for each element of a comma-separated list field, lower case,
// until f returns false.
func (h Header) Tokens(name string, f func(token string) bool) {
	for i := range h {
		if !strings.EqualFold(h[i].Name, name) {
			continue
		}
		for rest := h[i].Value; rest != ""; {
			var tok string
			tok, rest, _ = strings.Cut(rest, ",")
			if tok = strings.ToLower(strings.Trim(tok, " \t")); tok != "" && !f(tok) {
				return
			}
		}
	}
}

// HasToken says whether a list field holds token (lower case).
func (h Header) HasToken(name, token string) bool {
	found := false
	h.Tokens(name, func(t string) bool { found = t == token; return !found })
	return found
}
