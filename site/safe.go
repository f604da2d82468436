package site

import (
	"fmt"
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
		if u.RawQuery != "" || !emailForm().MatchString(u.Opaque) {
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
//
// Marks that are drawn over their neighbours (more than two on one character,
// those that enclose it, those that strike it out) become one too, and so do
// letters that are drawn as nothing. What is longer than maxShown is cut, and
// says so.
func clean(s string) string {
	if printable(s) && len(s) <= maxShown {
		return s
	}
	var b strings.Builder
	marks, n := 0, 0
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if n++; n > maxShown {
			fmt.Fprintf(&b, "… (%d bytes in all)", len(s))
			break
		}
		if unicode.Is(unicode.Mn, r) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == '\t':
			r = ' '
		case r == '\n':
		case unseen(r), marks > 2, unicode.Is(unicode.Me, r), r >= '\u0334' && r <= '\u0338':
			r = '\uFFFD'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// maxShown bounds the characters of one text on a page.
const maxShown = 4000

// unseen tells characters that are drawn as nothing, or that change how others
// are drawn.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800'
}

// plain is clean for a name that is written in ASCII by its own grammar (an
// image's reference, a signer's identity): any other character is spelled out, because it may
// look like one that belongs there.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= ' ' && r < 0x7f {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "\\u{%04x}", r)
	}
	return clean(b.String())
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
