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
// too, and the length is bounded. "##" is drawn apart: CI systems take "##[…]" and
// "##vso[…]" for commands to them wherever in a line of a log they stand.
func Clean(s string) string {
	if harmless(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) {
			return '\uFFFD'
		}
		return r
	}, s)
	for strings.Contains(s, "##") {
		s = strings.ReplaceAll(s, "##", "# #")
	}
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// harmless tells texts that stay as they are, which most are, at a glance.
func harmless(s string) bool {
	if len(s) > maxMessage {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}

// clean makes what a report says besides its lines safe to print, too: a signer
// writes most of it.
func (r *Report) clean() {
	texts := []*string{&r.Attestation, &r.Bundle, &r.Subject, &r.Times.Collected, &r.Times.Attested, &r.Times.Signed, &r.Times.Expires, &r.Times.Verified}
	if r.Signer != nil {
		signer := *r.Signer
		r.Signer = &signer
		texts = append(texts, &signer.Kind, &signer.Algorithm, &signer.Fingerprint, &signer.Key, &signer.Identity, &signer.Issuer, &signer.LogIndex, &signer.Time)
	}
	for _, t := range texts {
		*t = Clean(*t)
	}
}
