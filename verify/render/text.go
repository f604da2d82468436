package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/wallproof/wallproof/verify"
)

// mark is how a status looks.
type mark struct{ glyph, ascii, color string }

const reset = "\x1b[0m"

var marks = map[verify.Status]mark{
	verify.Pass:       {"✓", "+", "\x1b[32m"},
	verify.Fail:       {"✗", "x", "\x1b[31m"},
	verify.Held:       {"!", "!", "\x1b[33m"},
	verify.NotChecked: {"·", "-", "\x1b[2m"},
}

// Text writes a report as aligned lines, one a check, then the verdict and what
// to do about each line that fails or holds.
func Text(w io.Writer, r verify.Report, o Options) error {
	var b strings.Builder
	names, codes := 0, 0
	for _, c := range r.Checks {
		names, codes = max(names, utf8.RuneCountInString(c.Name)), max(codes, len(c.Code))
	}
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%s %-11s  %-*s  %-*s  %s\n", o.glyph(c.Status), c.Status, names, c.Name, codes, c.Code, c.Message)
	}
	b.WriteByte('\n')
	facts(&b, r)
	fmt.Fprintf(&b, "\n%s  %s\n", o.verdict(r.Verdict), verdictWords(r))
	advice(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func (o Options) glyph(s verify.Status) string {
	m := marks[s]
	g := m.glyph
	if o.ASCII {
		g = m.ascii
	}
	if o.Color {
		return m.color + g + reset
	}
	return g
}

func (o Options) verdict(v verify.Verdict) string {
	word := strings.ToUpper(string(v))
	if !o.Color {
		return word
	}
	color := map[verify.Verdict]string{verify.Valid: "\x1b[1;32m", verify.VerdictHeld: "\x1b[1;33m"}[v]
	if color == "" {
		color = "\x1b[1;31m"
	}
	return color + word + reset
}

// verdictWords says the verdict in a sentence.
func verdictWords(r verify.Report) string {
	switch r.Verdict {
	case verify.Valid:
		return "the evidence is genuine and current"
	case verify.VerdictHeld:
		return "the evidence is genuine, but the claim must not be shown"
	}
	return "the evidence does not verify; do not rely on it"
}

// facts writes who signed what and when.
func facts(b *strings.Builder, r verify.Report) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "%-12s %s\n", name, value)
		}
	}
	line("image", r.Subject)
	line("attestation", r.Attestation)
	if s := r.Signer; s != nil {
		line("signer", strings.Join(strings.Fields(s.Kind+" "+s.Identity+" "+s.Fingerprint), " "))
		line("algorithm", s.Algorithm)
		if s.Key != s.Fingerprint {
			line("key", s.Key)
		}
		line("log index", s.LogIndex)
	}
	line("collected", r.Times.Collected)
	line("attested", r.Times.Attested)
	line("signed", r.Times.Signed)
	line("re-run", r.Times.Verified)
	line("valid until", r.Times.Expires)
	line("checked", r.Times.Checked)
	if t := r.TrustedRoot; t != nil && t.Source == "embedded" {
		line("trusted root", fmt.Sprintf("embedded, of %s (%s old)", t.Date, t.Age))
	} else if t != nil {
		line("trusted root", "given, "+t.Digest)
	}
}

// advice says what to do about each code once.
func advice(b *strings.Builder, r verify.Report) {
	seen := map[verify.Code]bool{}
	for _, c := range r.Failed() {
		doc, ok := verify.ReasonFor(c.Code)
		if !ok || seen[c.Code] || doc.Next == "" {
			continue
		}
		seen[c.Code] = true
		fmt.Fprintf(b, "  %s: %s\n", c.Code, doc.Next)
	}
}
