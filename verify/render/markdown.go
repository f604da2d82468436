package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/wallproof/wallproof/verify"
)

// Markdown writes a report as a table, for a job summary.
func Markdown(w io.Writer, r verify.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s %s\n\n%s.\n\n", marks[verdictStatus(r.Verdict)].glyph, strings.ToUpper(string(r.Verdict)), sentence(verdictWords(r)))
	b.WriteString("| | check | code | |\n| --- | --- | --- | --- |\n")
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "| %s %s | %s | `%s` | %s |\n", marks[c.Status].glyph, c.Status, c.Name, c.Code, cell(c.Message))
	}
	b.WriteByte('\n')
	for _, f := range [][2]string{{"Image", r.Subject}, {"Attestation", r.Attestation}, {"Valid until", r.Times.Expires}, {"Checked", r.Times.Checked}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "- %s: `%s`\n", f[0], strings.ReplaceAll(f[1], "`", "'"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func verdictStatus(v verify.Verdict) verify.Status {
	switch v {
	case verify.Valid:
		return verify.Pass
	case verify.VerdictHeld:
		return verify.Held
	}
	return verify.Fail
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// cell escapes text for a table cell: everything that Markdown or HTML would
// take for markup.
func cell(s string) string {
	return cellEscaper.Replace(s)
}

var cellEscaper = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "!", `\!`, "~", `\~`, `\`, `\\`, "@", "&#64;", "://", "&#58;//", "#", `\#`, "www.", "www&#46;",
)
