//go:build breaks

package httpx

// leniency lets a seeded break read framing as careless parsers do. It does
// not exist in a release build.
type leniency struct{ Lax bool }

func (l leniency) lax() bool { return l.Lax }

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
