package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/wallproof/wallproof/attest/predicate"
)

// statusSchema names the format of status.json.
const statusSchema = "wallproof.status/v1"

// status is status.json: the state of one attestation for machines, and for the
// script of pages that were loaded before it changed.
type status struct {
	Schema      string                `json:"schema"`
	State       State                 `json:"state"`
	Codes       []string              `json:"codes"` // what holds or invalidates it
	Claim       string                `json:"claim,omitempty"`
	Attestation string                `json:"attestation,omitempty"`
	Subject     string                `json:"subject,omitempty"`
	Name        string                `json:"name,omitempty"`
	Policy      string                `json:"policy,omitempty"`
	Fabric      *predicate.LiveFabric `json:"fabric,omitempty"`
	Collected   string                `json:"collected,omitempty"`
	Expires     string                `json:"expires,omitempty"`
	Since       string                `json:"since,omitempty"`   // of this state
	Checked     string                `json:"checked,omitempty"` // when the site was built
	Next        string                `json:"next,omitempty"`    // when the first claim of the site ends; it is to be built again then
	Fleet       string                `json:"fleet,omitempty"`   // names the state of all attestations of the site
	Page        string                `json:"page,omitempty"`
	Bundle      string                `json:"bundle,omitempty"`
	Packet      string                `json:"packet,omitempty"`
}

// statusOf describes a record; stem leads to its files.
func statusOf(r *record, e *evidence, since, stem string) status {
	s := status{
		Schema: statusSchema, State: r.State, Codes: append([]string{}, r.Codes...), Claim: r.Claim, Attestation: r.Digest, Subject: r.Subject,
		Name: r.Name, Policy: r.Policy, Collected: r.Collected, Expires: r.Expires, Since: since,
	}
	if e != nil {
		s.Fabric = e.fabric()
	}
	if r.ID == "" {
		return s
	}
	s.Page = stem + endPage
	if r.State != StateInvalid {
		s.Bundle, s.Packet = stem+endBundle, stem+endPacket
	}
	return s
}

// fabric is the attested fabric in the form in which live.json has it.
func (e *evidence) fabric() *predicate.LiveFabric {
	f := e.boundary.Fabric
	return &predicate.LiveFabric{
		Driver: f.Driver.Name, Version: f.Driver.Version, ConfigDigest: f.Driver.ConfigDigest,
		Kernel: f.Host.Kernel, Arch: f.Host.Arch, Isolation: f.Driver.Isolation,
	}
}

// pretty writes JSON for people and machines: indented, one LF at the end.
func pretty(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("site: write JSON: %w", err)
	}
	return append(b, '\n'), nil
}

// compact writes JSON that every open page fetches: one line.
func compact(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("site: write JSON: %w", err)
	}
	return append(b, '\n'), nil
}

// badge is what badge.json and badge.svg say. A badge is shown on pages that
// know nothing of its age, so its text carries the date.
type badge struct {
	label, message, color string
	glyph                 string
}

const badgeLabel = "trust boundary"

func badgeOf(r *record) badge {
	switch {
	case r.State == StateCurrent:
		return badge{badgeLabel, fmt.Sprintf("%s until %s", r.Claim, r.Expires[:len("2006-01-02")]), "#0a5a4c", "✓"}
	case r.State == StateInvalid:
		return badge{badgeLabel, "does not verify", "#a1131d", "✕"}
	}
	word := r.chip().Word
	return badge{badgeLabel, strings.ToLower(word) + ": " + strings.Join(r.Codes, ", "), "#874607", "‖"}
}

// json is a badge for shields.io and what reads the same form.
func (b badge) json() ([]byte, error) {
	return pretty(map[string]any{"schemaVersion": 1, "label": b.label, "message": b.glyph + " " + b.message, "color": b.color, "cacheSeconds": 300})
}

// Widths of a badge, from the mean width of a character in the fonts that it
// names; textLength makes other fonts fit.
const (
	badgeChar = 6.6
	badgePad  = 9
	badgeH    = 22
)

func (b badge) svg() []byte {
	left := int(float64(len(b.label))*badgeChar) + 2*badgePad
	text := b.glyph + " " + b.message
	right := int(float64(len([]rune(text)))*badgeChar) + 2*badgePad
	var w bytes.Buffer
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img" aria-label="%s"><title>%s</title>`,
		left+right, badgeH, html.EscapeString(b.label+": "+b.message), html.EscapeString(b.label+": "+b.message))
	fmt.Fprintf(&w, `<clipPath id="r"><rect width="%d" height="%d" rx="3"/></clipPath><g clip-path="url(#r)"><rect width="%d" height="%d" fill="#2b3036"/><rect x="%d" width="%d" height="%d" fill="%s"/></g>`,
		left+right, badgeH, left, badgeH, left, right, badgeH, b.color)
	fmt.Fprintf(&w, `<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11"><text x="%d" y="15" textLength="%d">%s</text><text x="%d" y="15" textLength="%d">%s</text></g></svg>`,
		badgePad, left-2*badgePad, html.EscapeString(b.label), left+badgePad, right-2*badgePad, html.EscapeString(text))
	w.WriteByte('\n')
	return w.Bytes()
}

// linked is JSON-LD in schema.org's words. Members stand in the order of their names.
type linked struct {
	Context   string  `json:"@context"`
	ID        string  `json:"@id"`
	Type      string  `json:"@type"`
	About     *about  `json:"about,omitempty"`
	Author    author  `json:"author"`
	Status    string  `json:"creativeWorkStatus"`
	Published string  `json:"datePublished,omitempty"`
	Expires   string  `json:"expires,omitempty"`
	BasedOn   []media `json:"isBasedOn,omitempty"`
	Name      string  `json:"name,omitempty"`
	Text      string  `json:"text,omitempty"`
}

type about struct {
	Type       string `json:"@type"`
	Identifier string `json:"identifier"`
	Name       string `json:"name"`
}

type author struct {
	Type string `json:"@type"`
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
}

type media struct {
	Type     string `json:"@type"`
	Content  string `json:"contentUrl"`
	Encoding string `json:"encodingFormat"`
	Name     string `json:"name"`
}

// jsonLD describes the claim in schema.org's words. A held claim is described
// as held and not repeated.
func (b *builder) jsonLD(r *record, e *evidence, stem string) ([]byte, error) {
	doc := linked{
		Context: "https://schema.org", ID: "urn:wallproof:attestation:" + r.Digest, Type: "CreativeWork",
		Author: author{"Organization", b.publisher(), safeURL(b.in.Theme.Home)},
		Status: r.chip().Word,
	}
	if e == nil || !e.shown() {
		doc.Status += ": " + strings.Join(r.Codes, ", ")
		return pretty(doc)
	}
	doc.Type, doc.Name, doc.Text = "Claim", r.Claim, e.lede()
	doc.Published, doc.Expires = r.Collected, r.Expires
	doc.About = &about{"SoftwareApplication", r.Subject, r.Name}
	doc.BasedOn = []media{
		{"MediaObject", stem + endBundle, "application/vnd.dev.sigstore.bundle.v0.3+json", "Signed attestation"},
		{"MediaObject", stem + endPacket, "application/x-tar", "Evidence packet"},
	}
	return pretty(doc)
}
