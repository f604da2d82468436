package host

import (
	"strings"
	"unicode/utf8"
)

// MaxPath is the longest raw path that is looked at, in bytes.
const MaxPath = 16 << 10

// CleanPath decodes a request's path once and cleans it: no query, no "//", no
// dot segments, no slash at the end (but "/" itself). A path that two servers
// could read differently is refused with CodeAmbiguous: double or broken
// encoding, a backslash, control characters, invalid UTF-8, an encoded slash
// beside a dot segment, a dot segment with parameters ("..;x"). It does not
// allocate when the path is clean already. The error is an *Error.
func CleanPath(raw string) (string, error) {
	if len(raw) > MaxPath {
		return "", refuse(raw, CodeTooLong, "the path is too long to be policed")
	}
	p, _, _ := strings.Cut(raw, "?")
	if p == "" || p == "*" { // "OPTIONS *" is about the host
		return "/", nil
	}
	if p[0] != '/' {
		return "", refuse(raw, CodeAmbiguous, "the path does not begin with a slash")
	}
	if isClean(p) {
		if len(p) > 1 && p[len(p)-1] == '/' {
			p = p[:len(p)-1]
		}
		return p, nil
	}
	decoded, encodedSlash, err := decode(raw, p)
	if err != nil {
		return "", err
	}
	return clean(raw, decoded, encodedSlash)
}

// isClean reports whether p needs no decoding and no cleaning, a slash at the
// end aside.
func isClean(p string) bool {
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '%' || c == '\\' || c == ';' || c == '#' || c <= 0x20 || c >= 0x7f:
			return false
		case c == '/' && i+1 < len(p):
			if p[i+1] == '/' || p[i+1] == '.' && dotSegment(p[i+1:]) {
				return false
			}
		}
	}
	return true
}

// dotSegment reports whether s begins with the segment "." or "..".
func dotSegment(s string) bool {
	s = s[1:]
	if s != "" && s[0] == '.' {
		s = s[1:]
	}
	return s == "" || s[0] == '/'
}

// decode undoes percent-encoding once.
func decode(raw, p string) (decoded string, encodedSlash bool, _ *Error) {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c, encoded := p[i], false
		if c == '%' {
			if i+2 >= len(p) {
				return "", false, refuse(raw, CodeEscape, "the path has a broken percent-encoding")
			}
			hi, ok1 := unhex(p[i+1])
			lo, ok2 := unhex(p[i+2])
			if !ok1 || !ok2 {
				return "", false, refuse(raw, CodeEscape, "the path has a broken percent-encoding")
			}
			c, encoded, i = hi<<4|lo, true, i+2
		}
		switch {
		case c < 0x20 || c == 0x7f || c == '\\' || !encoded && (c == ' ' || c == '#'):
			return "", false, refuse(raw, CodeAmbiguous, "the path has a control character, a backslash or white space")
		case encoded && c == '/':
			encodedSlash = true
		}
		out = append(out, c)
	}
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			_, ok1 := unhex(out[i+1])
			_, ok2 := unhex(out[i+2])
			if ok1 && ok2 {
				return "", false, refuse(raw, CodeAmbiguous, "the path is percent-encoded twice")
			}
		}
	}
	if !utf8.Valid(out) {
		return "", false, refuse(raw, CodeAmbiguous, "the path is not valid UTF-8 once decoded")
	}
	return string(out), encodedSlash, nil
}

// clean removes empty and dot segments.
func clean(raw, p string, encodedSlash bool) (string, error) {
	var segments []string
	dots := false
	for _, seg := range strings.Split(p, "/") {
		bare, _, params := strings.Cut(seg, ";")
		switch bare {
		case "":
			if params {
				segments = append(segments, seg)
			}
			continue
		case ".", "..":
			if params {
				return "", refuse(raw, CodeAmbiguous, "the path has a dot segment with parameters, which some servers resolve and others do not")
			}
			dots = true
			if bare == ".." && len(segments) > 0 {
				segments = segments[:len(segments)-1]
			}
			continue
		}
		segments = append(segments, seg)
	}
	if dots && encodedSlash {
		return "", refuse(raw, CodeAmbiguous, "the path has an encoded slash beside a dot segment, which servers resolve in different orders")
	}
	return "/" + strings.Join(segments, "/"), nil
}

// HasPrefix reports whether a clean path is prefix or lies under it, by whole
// segments.
func HasPrefix(path, prefix string) bool {
	if prefix == "/" {
		return true
	}
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// FoldPath appends to buf a clean path in the form in which block entries
// compare: lower case, without the parameters (";…") and the trailing dots and
// spaces of its segments, because some servers ignore these. Segments that
// become empty vanish. ASCII paths need no memory beyond buf.
func FoldPath(buf []byte, path string) []byte {
	start := len(buf)
	for rest := path; rest != ""; {
		seg := rest[1:] // a clean path has a slash before each segment
		if i := strings.IndexByte(seg, '/'); i >= 0 {
			rest, seg = seg[i:], seg[:i]
		} else {
			rest = ""
		}
		if i := strings.IndexByte(seg, ';'); i >= 0 {
			seg = seg[:i]
		}
		seg = strings.TrimRight(seg, ". ")
		if seg == "" {
			continue
		}
		buf = append(buf, '/')
		for _, r := range seg {
			buf = utf8.AppendRune(buf, foldRune(r))
		}
	}
	if len(buf) == start {
		buf = append(buf, '/')
	}
	return buf
}

// EncodePath writes a clean path in ASCII so that CleanPath reads it back:
// percent, white space, what has a meaning in a URL, in a pattern or in markup,
// and everything beyond ASCII is percent-encoded.
func EncodePath(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c <= 0x20 || c >= 0x7f || strings.IndexByte("%?#*\"<>&\\", c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"
