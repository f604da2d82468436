package verify

import (
	"strings"
	"unicode"
)

// maxMessage bounds a line's message, in bytes.
const maxMessage = 800

// Clean makes text safe to print anywhere: parts of it may come from a hostile
// packet. Control and format characters (terminal escapes, bidirectional
// overrides, zero-width marks) and line separators become U+FFFD, invalid UTF-8
// too, and the length is bounded.
func Clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
