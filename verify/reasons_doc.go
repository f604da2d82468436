package verify

import (
	"fmt"
	"strings"
)

// ReasonsMarkdown is the text of docs/formats/reasons.md.
func ReasonsMarkdown() []byte {
	var b strings.Builder
	b.WriteString(`# Reason codes

Generated from package verify; do not edit. Every line of a verification carries one of these codes. They are stable: none is
ever renamed or used for something else. A check may yield several lines.

Status: *pass*; *fail* makes the verdict invalid (exit 2); *held* holds the claim (exit 3); *not-checked* changes nothing.

`)
	b.WriteString("| check | code | status | meaning | what to do |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range Reasons() {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", r.Check, r.Code, r.Status, r.Meaning, r.Next)
	}
	return []byte(b.String())
}
