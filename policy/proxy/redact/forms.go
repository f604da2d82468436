package redact

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Forms is a set of encodings that secrets are looked for in.
type Forms uint

// The forms.
const (
	Raw     Forms = 1 << iota // as it is
	Base64                    // at each of three offsets, standard and URL alphabet
	Hex                       // lower and upper case
	Percent                   // percent escapes, of whatever characters
	JSON                      // backslash escapes, of whatever characters
	HTML                      // character references, of whatever characters
	Quoted                    // quoted-printable
	Lines                     // with line breaks in it, as of base64 in lines

	AllForms = Raw | Base64 | Hex | Percent | JSON | HTML | Quoted | Lines
)

// expand calls add for what stands for v in a text, escapes and line breaks undone:
// see view. The same may come twice.
func expand(v []byte, forms Forms, add func(string)) {
	s := string(v)
	add(s)
	if plus := strings.ReplaceAll(s, " ", "+"); forms&Percent != 0 {
		add(plus) // as forms write it
	}
	if line := unbroken(s); forms&Lines != 0 && len(line) >= MinSecret {
		add(line)
	}
	if forms&Base64 != 0 {
		expandBase64(v, add)
	}
	if forms&Hex != 0 {
		add(hex.EncodeToString(v))
		add(strings.ToUpper(hex.EncodeToString(v)))
	}
}

// unbroken is s as it is searched for in a text whose line breaks are left out.
func unbroken(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	var d, joined reading
	for i := range len(s) {
		d.add(s[i], i, 1)
	}
	d.join(&joined)
	return string(joined.out)
}

// expandBase64 adds the characters that v alone determines when 0, 1 or 2
// bytes stand before it in a group of three.
func expandBase64(v []byte, add func(string)) {
	for offset := range 3 {
		buf := append(make([]byte, offset, offset+len(v)), v...)
		first := (offset*8 + 5) / 6
		last := len(buf) * 8 / 6
		add(base64.RawStdEncoding.EncodeToString(buf)[first:last])
		add(base64.RawURLEncoding.EncodeToString(buf)[first:last])
	}
}
