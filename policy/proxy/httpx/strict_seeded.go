//go:build breaks

package httpx

import "strings"

// leniency lets a seeded break read framing as careless parsers do. It does
// not exist in a release build.
type leniency struct{ Lax bool }

func (l leniency) lax() bool { return l.Lax }

// careless leaves control characters out, so that a disguised field is what it looks
// like.
func (l leniency) careless(head string) string {
	if !l.Lax {
		return head
	}
	return strings.ReplaceAll(head, "\x0b", "")
}

// laxChecks takes the first of several Host and Content-Length fields, and
// Content-Length before Transfer-Encoding.
func (leniency) laxChecks(q *Request) *Error {
	q.Host, q.HasHost = q.Header.Get("Host"), q.Header.Has("Host")
	var e *Error
	switch {
	case q.Header.Has("Content-Length"):
		q.Length, e = parseLength(q.Header.Get("Content-Length"))
	case q.Header.Has("Transfer-Encoding"):
		q.Length = Chunked
	}
	return e
}
