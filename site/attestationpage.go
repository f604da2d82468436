package site

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// attestationView is the page of one attestation.
type attestationView struct {
	Boundary       *boundary
	TechniquesNote string
	Outcomes       []chip
	Groups         []techniqueGroup
	Measured       []measured
	ChecksNote     string
	Checks         []checkRow
	Events         []eventRow
}

type measured struct {
	ID, Title string
	Facts     []fact
}

type checkRow struct {
	Name, Text, Code string
	Chip             chip
}

// pageBuffers are for pages of which there are very many.
var pageBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// writeAttestation writes the folder of one attestation.
func (b *builder) writeAttestation(a *attempt, entry *history.Entry) error {
	r, e := a.record, a.evidence
	to := &files{tree: b.tree, stem: attestationStem(r.ID)}
	view := attestationView{Events: eventRows(entry)}
	heading := r.chip().Word
	if e == nil {
		view.Boundary = b.unverified(r, entry)
	} else {
		view.Boundary = e.outlineOf(r.ID, b.in.Theme, e.collected)
		view.Boundary.PlainHref = ""
		view.Boundary.Files = slices.DeleteFunc(view.Boundary.Files, func(d download) bool { return d.Href == r.ID+endPage }) // this page
		if e.shown() {
			b.fillAttestation(&view, e)
			heading = r.Claim
		}
	}
	v := b.page(to.stem+endPage, fmt.Sprintf("%s · %s", heading, view.Boundary.Kind), "Attestation "+r.Digest, view)
	v.Watch = b.watch(e, v.Root, r.ID+endStatus, view.Boundary.Kind)
	v.Alternates = []alternate{{"application/json", "Status", r.ID + endStatus}, {"application/ld+json", "Claim", r.ID + endJSONLD}}
	if view.Groups != nil {
		v.Scripts = []string{v.Root + b.assets.Filter}
	}
	html := pageBuffers.Get().(*bytes.Buffer)
	defer pageBuffers.Put(html)
	html.Reset()
	if err := renderTo(html, pageAttestation, v); err != nil {
		return err
	}
	if err := errors.Join(to.put(endPage, unbroken(html.Bytes())), b.writeBeside(a, entry, to)); err != nil {
		return err
	}
	r.Ends, r.Bytes, r.Sum, r.made = to.ends, to.bytes, to.sum(), nameOf(to.ends, to.ids)
	return nil
}

// writeBeside writes the machine-readable files of an attestation.
func (b *builder) writeBeside(a *attempt, entry *history.Entry, to *files) error {
	r, e := a.record, a.evidence
	since := ""
	if n := len(entry.Events); n > 0 {
		since = entry.Events[n-1].Time
	}
	g := badgeOf(r)
	s, err1 := compact(statusOf(r, e, since, r.ID))
	bj, err2 := g.json()
	ld, err3 := b.jsonLD(r, e, r.ID)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	err := errors.Join(to.put(endStatus, s), to.put(endJSONLD, ld), to.share(endBadgeJSON, bj), to.share(endBadgeSVG, g.svg()))
	if e == nil || err != nil {
		return err
	}
	return b.copyPacket(a, to)
}

func (b *builder) fillAttestation(v *attestationView, e *evidence) {
	v.Groups = e.groups()
	v.TechniquesNote = fmt.Sprintf("%s. Ways of one technique that went alike share a row. The verifier judged each attempt again from what both sides saw.", count(e.attacks(), "conclusive attack", "conclusive attacks"))
	seen := map[string]bool{}
	for _, g := range v.Groups {
		for _, row := range g.Rows {
			if !seen[row.Chip.Word] {
				seen[row.Chip.Word] = true
				v.Outcomes = append(v.Outcomes, row.Chip)
			}
		}
	}
	slices.SortFunc(v.Outcomes, func(x, y chip) int { return strings.Compare(x.Word, y.Word) })
	v.Measured = e.measured()
	v.ChecksNote = "Each line has a stable reason code. Nothing was taken from the publisher but the trusted key."
	for _, c := range e.checks {
		v.Checks = append(v.Checks, checkRow{Name: clean(c.name), Text: clean(c.message), Code: clean(c.code), Chip: checkChip(c.status)})
	}
}

func checkChip(status string) chip {
	switch verify.Status(status) {
	case verify.Pass:
		return chip{Word: "Pass", Glyph: "signed", Class: "good"}
	case verify.Held:
		return chip{Word: "Held", Glyph: "held", Class: "hold"}
	case verify.Fail:
		return chip{Word: "Fail", Glyph: "invalid", Class: "alarm"}
	}
	return chip{Word: "Not checked", Glyph: "none", Class: "plain"}
}

// measured is the evidence that each part of the claim links to.
func (e *evidence) measured() []measured {
	b := e.boundary
	return []measured{
		{"fabric", "Sandbox fabric", e.fabricFacts()},
		{"image", "Image", facts(fact{Label: "Name", Name: e.name()}, fact{Label: "Digest", Digest: clean(e.subject)}, fact{Label: "Index", Digest: clean(b.Image.IndexDigest)}, fact{Label: "Platform", Text: clean(b.Image.Platform)})},
		{"policy", "Egress policy", facts(fact{Label: "Default", Text: title(clean(b.Policy.EgressDefault))}, fact{Label: "Digest", Digest: clean(b.Policy.Digest)}, fact{Label: "Enforcement", Text: clean(b.Enforcement.State)})},
		{"proxy", "Proxy", facts(fact{Label: "Version", Text: clean(b.Proxy.Version)}, fact{Label: "Placement", Text: clean(b.Proxy.Placement)}, fact{Label: "Configuration", Digest: clean(b.Proxy.ConfigDigest)})},
		{"redaction", "Redaction", facts(fact{Label: "Result", Text: redactionText(b.Redaction)}, fact{Label: "Encodings", Text: clean(strings.Join(b.Redaction.Encodings, ", "))}, fact{Label: "Proof", Digest: clean(b.Redaction.Digest)})},
		{"admission", "Admission", facts(fact{Label: "State", Text: clean(b.Admission.State)}, fact{Label: "Policy", Digest: clean(b.Admission.PolicyDigest)}, fact{Label: "Vouched for by", Text: clean(b.Admission.Detail)})},
	}
}

// unverified is the view of evidence that does not verify: nothing that it says
// is in it, only digests that the site computed and reason codes.
func (b *builder) unverified(r *record, entry *history.Entry) *boundary {
	c := stateWord(StateInvalid, nil)
	v := &boundary{ID: r.ID, Kind: "Evidence that does not verify", State: c, Gaps: b.in.Theme.KnownGaps}
	h := &heldView{
		Title: "Not shown: the evidence does not verify", Class: "bad", Why: "Why it does not verify", Until: "What it means is the same for all of them.",
		Lede: "What was handed over is not what it claims to be, or it is damaged. Nothing that it says is on this page.",
	}
	since := b.now
	if t, ok := firstSeen(entry, firstOf(r.Codes)); ok {
		since = t
	}
	for i, code := range r.Codes {
		x := reason{ID: "reason-" + code, Code: code, Title: unverified.title, Since: at(since)}
		if i == 0 {
			x.Text, x.Remedy = unverified.text, unverified.remedy
		}
		h.Reasons = append(h.Reasons, x)
	}
	for i, p := range parts {
		h.Parts = append(h.Parts, invariant{N: i + 1, Title: p.title, Chip: chip{Word: c.Word, Glyph: c.Glyph, Class: c.Class, Date: on(since)}})
	}
	v.Facts = facts(fact{Label: "Statement", Digest: r.Digest}, fact{Label: "Seen", Time: at(since)})
	v.Held = h
	return v
}

func firstOf(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}
