// Package render writes verification reports: text for people, JSON for
// programs, SARIF 2.1.0, JUnit and Markdown for CI systems, and the annotations
// of GitHub and GitLab. It writes to an io.Writer and knows nothing else.
package render

import (
	"fmt"
	"io"

	"github.com/wallproof/wallproof/verify"
)

// Format names an output format.
type Format string

// The formats, as --output takes them.
const (
	FormatText     Format = "text"
	FormatJSON     Format = "json"
	FormatSARIF    Format = "sarif"
	FormatJUnit    Format = "junit"
	FormatMarkdown Format = "markdown"
)

// Formats lists all formats.
func Formats() []Format {
	return []Format{FormatText, FormatJSON, FormatSARIF, FormatJUnit, FormatMarkdown}
}

// Options of Report.
type Options struct {
	Color bool // ANSI colours in text; words and glyphs say the same without
	ASCII bool // no glyphs beyond ASCII in text
	// Artifact is what was verified, as the user named it; for SARIF and JUnit.
	Artifact string
	Version  string // of the tool
}

// Report writes a report in a format.
func Report(w io.Writer, r verify.Report, f Format, o Options) error {
	switch f {
	case FormatText:
		return Text(w, r, o)
	case FormatJSON:
		return JSON(w, r)
	case FormatSARIF:
		return SARIF(w, r, o)
	case FormatJUnit:
		return JUnit(w, r, o)
	case FormatMarkdown:
		return Markdown(w, r)
	}
	return fmt.Errorf("unknown output format %q; one of text, json, sarif, junit, markdown", f)
}
