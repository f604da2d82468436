package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/probes/catalog"
)

// glyphs stand beside every outcome's word, so that colour carries no meaning
// of its own.
var glyphs = map[judge.Outcome]string{
	judge.Blocked: "■", judge.Contained: "▣", judge.Escaped: "✗",
	judge.Inconclusive: "?", judge.NotTested: "–", judge.NotApplicable: "–",
}

var colours = map[judge.Outcome]string{
	judge.Blocked: term.Green, judge.Contained: term.Green, judge.Escaped: term.Red,
	judge.Inconclusive: term.Yellow, judge.NotTested: term.Yellow, judge.NotApplicable: term.Dim,
}

// printVectors prints the table of the eight vectors and the headline.
func printVectors(w io.Writer, style term.Style, vectors []judge.Summary, critical int64) {
	rows := [][]string{{"", "VECTOR", "", "ATTEMPTS", "RESULT", "IF ESCAPED"}}
	var results []judge.Outcome
	for _, v := range vectors {
		tried := v.Totals[judge.Blocked] + v.Totals[judge.Contained] + v.Totals[judge.Escaped] + v.Totals[judge.Inconclusive]
		rows = append(rows, []string{glyphs[v.Outcome], string(v.Vector), catalog.VectorTitle(v.Vector), fmt.Sprint(tried), string(v.Outcome), string(v.Severity)})
		results = append(results, v.Outcome)
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for n, r := range rows {
		var line strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			switch {
			case n == 0:
				c = style.Paint(term.Dim, c)
			case i == 0 || i == 4:
				c = style.Paint(colours[results[n-1]], c)
			}
			if i == 3 { // numbers to the right
				c = pad + c
				pad = ""
			}
			line.WriteString("  " + c + pad)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
	fmt.Fprintln(w)
	printHeadline(w, style, vectors, critical)
}

func printHeadline(w io.Writer, style term.Style, vectors []judge.Summary, critical int64) {
	var open []string
	escaped := false
	for _, v := range vectors {
		escaped = escaped || v.Outcome == judge.Escaped
		if !v.Conclusive() && v.Outcome != judge.Escaped {
			open = append(open, string(v.Vector))
		}
	}
	colour := term.Green
	if escaped {
		colour = term.Red
	} else if len(open) > 0 {
		colour = term.Yellow
	}
	text := criticalEscapes(critical)
	if len(open) > 0 {
		text += "; not conclusive: " + strings.Join(open, ", ")
	}
	fmt.Fprintln(w, "  "+style.Paint(colour, text))
	for _, v := range vectors {
		for _, reason := range v.Reasons {
			if !v.Conclusive() {
				fmt.Fprintf(w, "    %s\n", reason)
			}
		}
	}
}

// criticalEscapes says how many there are.
func criticalEscapes(n int64) string {
	if n == 1 {
		return "1 critical escape"
	}
	return fmt.Sprintf("%d critical escapes", n)
}
