// Package term holds the rules for what the command line prints.
//
//   - Results go to standard output; progress, warnings and errors to standard
//     error, so that a result can be piped.
//   - Colour and redrawing only on a terminal, and never when NO_COLOR is set or
//     TERM is dumb. A meaning is always a word and a glyph, never a colour alone.
//   - An error is one line that begins with the program's name, says what was
//     attempted and what went wrong, and where there is one, the next step.
package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style decorates text for one output.
type Style struct {
	Color bool // escape sequences may be written
	Live  bool // a line may be redrawn
	Width int  // columns, 80 when unknown
}

// StyleOf says what may be written to w.
func StyleOf(w io.Writer) Style {
	s := Style{Width: 80}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width = width
	}
	s.Live = os.Getenv("TERM") != "dumb"
	s.Color = s.Live && os.Getenv("NO_COLOR") == ""
	return s
}

// Colours of the sixteen-colour palette, which every theme keeps readable.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Dim    = "2"
	Bold   = "1"
)

// Paint returns text in a colour where that is allowed.
func (s Style) Paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Error prints an error the way every command does. What it quotes may come from
// outside, so each of its lines is cleaned.
func Error(w io.Writer, err error) {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, l := range lines {
		l = strings.TrimRight(Clean(strings.ReplaceAll(l, "\t", "  ")), " ")
		// To GitHub a line that begins so, after blanks, is a command.
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l), "::"); ok {
			l = ": :" + rest
		}
		lines[i] = l
	}
	fmt.Fprintf(w, "wallproof: %s\n", strings.Join(lines, "\n  "))
}

// Clean makes text from outside safe for a terminal and for the log of a CI system:
// control and format characters (escape sequences, bidirectional overrides, marks
// without width), line separators and invalid UTF-8 become '?', and "##", which
// begins a command to some CI systems wherever in a line it stands, is drawn apart.
func Clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) {
			return '?'
		}
		return r
	}, text)
	for strings.Contains(text, "##") {
		text = strings.ReplaceAll(text, "##", "# #")
	}
	return text
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
