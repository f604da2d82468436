package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"
)

// Forms is a set of encodings that secrets are looked for in.
type Forms uint

// The forms.
const (
	Raw     Forms = 1 << iota // as it is
	Base64                    // at each of three offsets, standard and URL alphabet
	Hex                       // lower and upper case
	Percent                   // as the common libraries escape, and every byte escaped
	JSON                      // as the common libraries escape, and every character escaped
	HTML                      // entity escapes

	AllForms = Raw | Base64 | Hex | Percent | JSON | HTML
)

// expand calls add for every form of v. The same form may come twice.
func expand(v []byte, forms Forms, add func(string)) {
	s := string(v)
	if forms&Raw != 0 {
		add(s)
	} else {
		// A value that needs no escapes is the same in several forms.
		all := add
		add = func(p string) {
			if p != s {
				all(p)
			}
		}
	}
	if forms&Base64 != 0 {
		expandBase64(v, add)
	}
	if forms&Hex != 0 {
		add(hex.EncodeToString(v))
		add(strings.ToUpper(hex.EncodeToString(v)))
	}
	if forms&Percent != 0 {
		expandPercent(s, add)
	}
	if forms&JSON != 0 {
		expandJSON(s, add)
	}
	if forms&HTML != 0 {
		expandHTML(s, add)
	}
}

// expandBase64 adds the characters that v alone determines when 0, 1 or 2
// bytes stand before it in a group of three.
func expandBase64(v []byte, add func(string)) {
	for offset := range 3 {
		buf := append(make([]byte, offset, offset+len(v)), v...)
		first := (offset*8 + 5) / 6
		last := len(buf) * 8 / 6
		std := base64.RawStdEncoding.EncodeToString(buf)[first:last]
		add(std)
		add(base64.RawURLEncoding.EncodeToString(buf)[first:last])
		// As it stands in a form or a URL, and in what writes every slash of JSON as
		// \/. The group may be cut by the escape of a character, not within one.
		for _, r := range base64Escapes() {
			add(r.Replace(std))
		}
	}
}

// base64Escapes are the ways in which the characters of the standard alphabet that
// are neither letter nor digit are escaped.
var base64Escapes = sync.OnceValue(func() []*strings.Replacer {
	return []*strings.Replacer{
		strings.NewReplacer("+", "%2B", "/", "%2F"), strings.NewReplacer("+", "%2b", "/", "%2f"),
		strings.NewReplacer("+", "%2B"), strings.NewReplacer("+", "%2b"), // a path keeps its slashes
		strings.NewReplacer("/", `\/`), strings.NewReplacer("+", `\u002b`), strings.NewReplacer("+", `\u002b`, "/", `\/`),
		strings.NewReplacer("+", `\u002B`), strings.NewReplacer("+", `\u002b`, "/", `\u002f`), strings.NewReplacer("+", `\u002B`, "/", `\u002F`),
	}
})

// Characters that escape functions leave alone besides letters and digits.
var percentSafe = []string{
	"-_.~",               // RFC 3986, Go's query escape, Python's quote_plus
	"-_.~/",              // Python's quote
	"-_.!~*'()",          // encodeURIComponent
	"-_.!~*'();/?:@&=+$", // Go's path escape and encodeURI keep most of these
	";,/?:@&=+$-_.!~*'()#",
	"$&+=:@-_.~", // Go's PathEscape
	"-_.",        // PHP's urlencode before 5.3
	"",
}

func expandPercent(s string, add func(string)) {
	add(url.QueryEscape(s))
	add(url.PathEscape(s))
	for _, safe := range percentSafe {
		for _, format := range []string{"%%%02X", "%%%02x"} {
			escaped := percent(s, safe, format)
			add(escaped)
			add(strings.NewReplacer("%20", "+").Replace(escaped))
		}
	}
	add(percentAll(s, "%%%02X"))
	add(percentAll(s, "%%%02x"))
}

func percent(s, safe, format string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

func percentAll(s, format string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

// jsonStyles are the ways in which JSON writers escape inside a string.
var jsonStyles = []struct {
	html, slash, ascii bool
	format             string
}{
	{format: `\u%04x`},
	{slash: true, format: `\u%04x`},
	{html: true, format: `\u%04x`},
	{html: true, format: `\u%04X`},
	{ascii: true, format: `\u%04x`},
	{ascii: true, slash: true, format: `\u%04x`},
	{ascii: true, format: `\u%04X`},
}

func expandJSON(s string, add func(string)) {
	if !utf8.ValidString(s) {
		return
	}
	for _, st := range jsonStyles {
		add(jsonEscape(s, func(r rune) bool {
			return r < ' ' || st.html && strings.ContainsRune("<>&", r) || st.ascii && r > 0x7e
		}, st.slash, st.format))
	}
	for _, format := range []string{`\u%04x`, `\u%04X`} {
		add(jsonEscape(s, func(rune) bool { return true }, false, format))
	}
}

func jsonEscape(s string, numeric func(rune) bool, slash bool, format string) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	all := numeric('a')
	var b strings.Builder
	for _, r := range s {
		switch esc, isShort := short[r]; {
		case isShort && !all:
			b.WriteString(esc)
		case r == '/' && slash:
			b.WriteString(`\/`)
		case r > 0xffff && numeric(r):
			r -= 0x10000
			fmt.Fprintf(&b, format+format, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case numeric(r):
			fmt.Fprintf(&b, format, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func expandHTML(s string, add func(string)) {
	add(html.EscapeString(s))
	add(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(s))
	add(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#039;").Replace(s))
	add(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s))
	add(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s))
}
