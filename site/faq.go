package site

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wallproof/wallproof/policy"
)

// faq answers the five questions that every page answers, from the evidence.
func (e *evidence) faq() []answer {
	return []answer{
		{"Where does the code run?", e.whereItRuns()},
		{"Can the agent exfiltrate anything?", e.exfiltration()},
		{"How are zero escapes shown?", e.howShown()},
		{"What signs the evidence?", e.whatSigns()},
		{"What invalidates it?", []string{
			"Any critical escape, in the battery or of the red team; another image, egress policy or sandbox fabric than the one attested; a verifier re-run that is missing or failed; and expiry, here on " + at(e.expires).Text + ".",
			"Drift latches: once it was seen, going back to the old state does not revive this attestation. Only a new collection does.",
		}},
	}
}

func (e *evidence) whereItRuns() []string {
	f := e.boundary.Fabric
	out := []string{fmt.Sprintf("In a %s sandbox, version %s, %s. The host ran Linux %s on %s.",
		clean(f.Driver.Name), clean(f.Driver.Version), kernelText(f.Driver), clean(f.Host.Kernel), clean(f.Host.Arch))}
	if len(e.boundary.Substitutions) > 0 {
		out = append(out, "During the battery these stood in for the real thing: "+clean(strings.Join(e.boundary.Substitutions, "; "))+".")
	}
	return out
}

func (e *evidence) exfiltration() []string {
	var open, closed, through []string
	for _, p := range e.edges {
		name := strings.ToLower(clean(p.Label))
		switch p, ok := e.asSupported(p); {
		case ok && p.Posture == policy.PostureDenied:
			closed = append(closed, name)
		case ok:
			open = append(open, name)
		case p.Posture == policy.PostureDenied:
			through = append(through, name)
		}
	}
	var out []string
	if len(through) > 0 {
		out = append(out, "The policy denies "+list(through, "and")+", but an attack that bears on this got through, which this page names.")
	}
	if len(closed) > 0 {
		out = append(out, "Not to "+list(closed, "or")+": every attack that bears on one of these failed.")
	}
	if len(open) > 0 {
		out = append(out, "What the policy allows stays open: "+list(open, "and")+". Whatever the code can read it could send there, so what it can read must not include a secret; that is what the redaction proof and the credential proxy are for.")
	}
	if n := len(e.boundary.Battery.Permitted); n > 0 {
		out = append(out, fmt.Sprintf("The battery noted %s over an edge that the policy itself allows. The attestation's page lists them.", count(int64(n), "arrival", "arrivals")))
	}
	return out
}

func (e *evidence) howShown() []string {
	return []string{
		"Each attack runs twice in worlds that share nothing. With the wall removed it must succeed; if it does not, it proves nothing and is not counted. With the wall up it must be refused, and the refusal must be attributable to that very attempt.",
		"Both sides are watched: what the code saw inside, and what the targets outside saw arrive. A packet that leaves without an answer is an escape even though the code heard nothing back.",
		"Outcomes are not taken on trust: the verifier computes each of them again from the recorded observations.",
	}
}

func (e *evidence) whatSigns() []string {
	s := fmt.Sprintf("%s, with %s. Signed %s (%s).", title(clean(e.signer)), clean(e.algorithm), at(e.signedAt).Text, clean(e.signedHow))
	if e.logged != "" {
		s += " The signature is in a transparency log, " + clean(e.logged) + "."
	}
	out := []string{s}
	if e.rerun != nil {
		out = append(out, "The verifier was run again and its result signed: "+lowerFirst(e.rerun.text())+".")
	}
	return out
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// list joins words the way people do.
func list(words []string, and string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + and + " " + words[len(words)-1]
}

// plain is the claim as plain text, 76 columns wide.
func (e *evidence) plain() string {
	var b strings.Builder
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s %s\n", label, oneLine(value))
		}
	}
	fmt.Fprintf(&b, "TRUST BOUNDARY  %s\n\n", e.name())
	line("Claim", fmt.Sprintf("%s (battery%s)", count(e.criticalEscapes(), "critical escape", "critical escapes"), redTeamWord(e)))
	line("Attacks", fmt.Sprintf("%d, each with a positive control", e.attacks()))
	line("Image", clean(e.subject))
	line("Policy", clean(e.boundary.Policy.Digest))
	line("Fabric", strings.TrimSpace(clean(e.boundary.Fabric.Driver.Name)+" "+clean(e.boundary.Fabric.Driver.Version)))
	line("Collected", at(e.collected).Text)
	line("Valid until", at(e.expires).Text)
	if e.nameless() {
		line("Signed by", "key "+clean(e.fingerprint))
	} else {
		line("Signed by", clean(e.signer))
	}
	line("Attestation", e.digest)
	b.WriteString("\n")
	for _, p := range e.picture() {
		line(p.Chip.Word, p.Name)
	}
	b.WriteString("\n")
	for _, v := range e.vectorRows() {
		line(v.Chip.Word, v.Name)
	}
	b.WriteString("\nNot asserted\n")
	for _, l := range e.boundary.Limits {
		b.WriteString(wrap("- "+strings.Join(strings.Fields(clean(l)), " "), 76))
	}
	return b.String()
}

// oneLine keeps a value from making lines of its own, which a text without markup
// could not tell from those of the claim.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// wrap breaks a text into lines of at most a number of columns, all but the first
// indented by two. A word that is longer stands alone.
func wrap(text string, columns int) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > columns:
			b.WriteString("\n  ")
			width = 2
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	b.WriteByte('\n')
	return b.String()
}

func redTeamWord(e *evidence) string {
	if e.boundary.RedTeam == nil {
		return " alone, no red-team result"
	}
	return " and external red team"
}
