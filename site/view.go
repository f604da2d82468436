package site

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/judge"
)

// Files about the primary attestation at the site's root.
const (
	fileStatus    = "status.json"
	fileBadgeJSON = "badge.json"
	fileBadgeSVG  = "badge.svg"
	fileJSONLD    = "boundary.jsonld"
	filePlain     = "summary.txt"
)

// Ends of the names of an attestation's files. They share a name that ends in the
// attestation's id, in one folder for every 256th part of all ids: a folder of its
// own for each attestation would cost more than everything that is in it.
const (
	endPage      = ".html"
	endStatus    = ".status.json"
	endBadgeJSON = ".badge.json"
	endBadgeSVG  = ".badge.svg"
	endJSONLD    = ".jsonld"
	endBundle    = ".sigstore.json"
	endPacket    = ".tar"
)

// attestationFolder is where everything about attestations is.
const attestationFolder = "attestations"

// attestationStem is what the addresses of an attestation's files begin with,
// seen from the site's root.
func attestationStem(id string) string { return attestationFolder + "/" + id[:2] + "/" + id }

// boundaryOf is the view of one attestation, for a page from which stem leads to
// the attestation's files.
func (e *evidence) boundaryOf(stem string, theme Theme, now time.Time) *boundary {
	b := e.outlineOf(stem, theme, now)
	if b.Claim != nil {
		e.fillClaim(b.Claim, stem+endPage)
		b.Claim.FAQ = append(b.Claim.FAQ, themeFAQ(theme)...)
	}
	return b
}

// outlineOf is the view without what only the trust-boundary page shows.
func (e *evidence) outlineOf(stem string, theme Theme, now time.Time) *boundary {
	page := stem + endPage
	b := &boundary{
		ID:             e.id,
		Kind:           e.name(),
		State:          e.stateChip(),
		Facts:          e.recordFacts(now),
		Files:          downloads(stem),
		Gaps:           theme.KnownGaps,
		TechniquesHref: page + "#techniques",
		PlainHref:      filePlain,
		Until:          at(e.expires),
	}
	for _, l := range e.boundary.Limits {
		b.Limits = append(b.Limits, sentence(clean(l)))
	}
	if e.shown() {
		b.Claim = e.claimOf()
		return b
	}
	b.Held = e.heldOf()
	return b
}

// shown tells whether a claim may be rendered: when it is current, or when only
// escapes below critical hold it, which take away what they contradict.
func (e *evidence) shown() bool { return e.state == StateCurrent || e.partial() }

func (e *evidence) partial() bool { return e.state == StateHeld && onlyLesserEscapes(e.codes()) }

func (e *evidence) codes() []string { return codesOf(e.reasons) }

func codesOf(rs []holding) []string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, r.code)
	}
	return out
}

func sentence(s string) string { return title(s) }

func themeFAQ(t Theme) []answer {
	out := make([]answer, 0, len(t.FAQ))
	for _, q := range t.FAQ {
		out = append(out, answer{q.Question, strings.Split(q.Answer, "\n\n")})
	}
	return out
}

// stateChip is the word for the whole attestation.
func (e *evidence) stateChip() chip {
	if e.partial() {
		return chip{Word: "Held in part", Glyph: "held", Class: "hold"}
	}
	return stateWord(e.state, e.codes())
}

func stateWord(s State, codes []string) chip {
	switch s {
	case StateCurrent:
		return chip{Word: "Signed and current", Glyph: "signed", Class: "good"}
	case StateInvalid:
		return chip{Word: "Does not verify", Glyph: "invalid", Class: "alarm"}
	case StateRemoved:
		return chip{Word: "Removed", Glyph: "none", Class: "plain"}
	}
	for _, c := range codes {
		if !explain(c).stale {
			return chip{Word: "Held", Glyph: "held", Class: "hold"}
		}
	}
	return chip{Word: "Stale", Glyph: "stale", Class: "hold"}
}

func downloads(stem string) []download {
	return []download{
		{Title: "Evidence", Href: stem + endPage},
		{Title: "Signed bundle", Href: stem + endBundle, Download: true},
		{Title: "Packet", Href: stem + endPacket, Download: true},
		{Title: "Status (JSON)", Href: stem + endStatus},
	}
}

// recordFacts are facts of record: they identify the attestation and are shown
// whether or not its claim is.
func (e *evidence) recordFacts(now time.Time) []fact {
	until := fact{Label: "Valid until", Time: at(e.expires)}
	if e.state == StateCurrent && now.After(e.collected) {
		until.Life = &life{Percent: percentGone(e.collected, e.expires, now)}
	}
	return facts(
		fact{Label: "Image", Digest: clean(e.subject)},
		fact{Label: "Policy", Digest: clean(e.boundary.Policy.Digest)},
		fact{Label: "Collected", Time: at(e.collected)},
		until,
		fact{Label: "Signed at", Time: at(e.signedAt), Note: clean(e.signedHow)},
		e.signerFact(),
		fact{Label: "Algorithm", Text: clean(e.algorithm)},
		fact{Label: "Transparency", Text: cmp.Or(clean(e.logged), "in no log")},
		fact{Label: "Attestation", Digest: e.digest},
		e.scorecardFact(),
	)
}

// scorecardFact names the scorecard that is bound to the attestation, with its
// kind.
func (e *evidence) scorecardFact() fact {
	s := e.scorecard
	if s == nil {
		return fact{}
	}
	return fact{Label: "Scorecard", Text: fmt.Sprintf("%s (%s)", clean(s.ID), clean(s.Kind)), Note: "produced " + on(parseTime(s.Produced)).Text}
}

// signerFact names the signer; a key without a name of its own by its
// fingerprint.
func (e *evidence) signerFact() fact {
	if e.nameless() {
		return fact{Label: "Signer", Text: "Key", Digest: clean(e.fingerprint)}
	}
	return fact{Label: "Signer", Text: title(clean(e.signer)), Digest: clean(e.fingerprint)}
}

// nameless tells a signer that is nothing but a key.
func (e *evidence) nameless() bool {
	return e.fingerprint != "" && strings.HasPrefix(e.signer, "key sha256:")
}

func percentGone(from, to, now time.Time) int {
	if !to.After(from) {
		return 100
	}
	return max(0, min(100, int(100*now.Sub(from)/to.Sub(from))))
}

// heldOf is what stands in the place of a held claim.
func (e *evidence) heldOf() *heldView {
	word := e.stateChip()
	h := &heldView{Title: word.Word + ", not shown", Class: "held", Why: "Why it is held", Until: "The claim stays off the page until none is left."}
	if word.Word == "Stale" {
		h.Lede = "This attestation is genuine, but it is out of date. What it claimed is therefore not on this page. The evidence stays on record, and so does the history."
	} else {
		h.Lede = "This attestation is genuine, but what it would claim is not supported. The claim is therefore not on this page. The evidence stays on record, and so does the history."
	}
	for _, r := range e.reasons {
		h.Reasons = append(h.Reasons, r.view())
	}
	h.Escapes = e.escapes()
	for i, p := range parts {
		c := word
		c.Date = on(e.since())
		h.Parts = append(h.Parts, invariant{N: i + 1, Title: p.title, Chip: c})
	}
	return h
}

// since is the earliest moment at which anything held the claim.
func (e *evidence) since() time.Time {
	var t time.Time
	for _, r := range e.reasons {
		if t.IsZero() || r.since.Before(t) {
			t = r.since
		}
	}
	return t
}

func (r holding) view() reason {
	x := explain(r.code)
	return reason{ID: "reason-" + r.code, Code: r.code, Title: x.title, Text: x.text, Detail: clean(r.message), Remedy: x.remedy, Since: at(r.since), Latched: r.latched}
}

// escapes lists what got through.
func (e *evidence) escapes() []escape {
	var out []escape
	for _, t := range e.techniques {
		if judge.Outcome(t.Outcome) != judge.Escaped {
			continue
		}
		known := e.catalog[t.Technique]
		x := escape{ID: clean(t.Technique), Title: clean(known.Title), Text: clean(known.Description), Chip: chip{Word: title(t.Severity) + ", escaped", Glyph: "escaped", Class: "alarm"}}
		if x.Title == "" {
			x.Title = x.ID
		}
		if t.Variant != "default" {
			x.ID += "/" + clean(t.Variant)
		}
		out = append(out, x)
	}
	return out
}

// fabricFacts are the measured facts on the page of an attestation.
func (e *evidence) fabricFacts() []fact {
	d := e.boundary.Fabric.Driver
	fs := []fact{{Label: "Driver", Text: strings.TrimSpace(clean(d.Name) + " " + clean(d.Version))}, {Label: "Configuration", Digest: clean(d.ConfigDigest)}}
	for _, k := range sortedKeys(d.Isolation) {
		fs = append(fs, fact{Label: title(clean(k)), Text: clean(d.Isolation[k])})
	}
	fs = append(fs, fact{Label: "Host kernel", Text: clean(e.boundary.Fabric.Host.Kernel)}, fact{Label: "Architecture", Text: clean(e.boundary.Fabric.Host.Arch)})
	return facts(fs...)
}
