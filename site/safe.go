package site

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// safeURL returns an address that may stand in a link, or "": only https, http
// and mailto, absolute, with a host, without credentials or control characters.
// What is not a link is shown as text.
func safeURL(s string) string {
	if len(s) > 2048 || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	switch u.Scheme {
	case "https", "http":
		if u.Host == "" || u.User != nil || u.Opaque != "" {
			return ""
		}
	case "mailto":
		if u.RawQuery != "" || !emailForm.MatchString(u.Opaque) {
			return ""
		}
	default:
		return ""
	}
	return u.String()
}

// clean makes a text from a packet printable: control, format and bidirectional
// characters, which could make a page say something else than its bytes, become
// a visible replacement character. Lines are kept.
func clean(s string) string {
	if printable(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// printable tells plain texts, which most are, at a glance.
func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n') || c >= 0x7f {
			return false
		}
	}
	return true
}

// contrast is the ratio of WCAG 2.2 between two colours of the form #rrggbb.
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	if x < y {
		x, y = y, x
	}
	return (x + 0.05) / (y + 0.05)
}

// luminance is WCAG 2.2's relative luminance.
func luminance(c string) float64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(c, "#"), 16, 32)
	if err != nil {
		return 0
	}
	part := func(v uint64) float64 {
		f := float64(v&0xff) / 255
		if f <= 0.04045 {
			return f / 12.92
		}
		return math.Pow((f+0.055)/1.055, 2.4)
	}
	return 0.2126*part(n>>16) + 0.7152*part(n>>8) + 0.0722*part(n)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
