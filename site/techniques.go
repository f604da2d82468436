package site

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/catalog"
)

// techniqueGroup is one vector's techniques on the page of an attestation.
type techniqueGroup struct {
	ID, Name string
	Chip     chip
	Rows     []techniqueRow
}

// techniqueRow is one technique, or those of its variants that went the same
// way.
type techniqueRow struct {
	ID, Title, References, Severity string
	Variants                        []string // empty where there is only one way
	Control, Reason, Kind, Search   string
	Chip                            chip
	Findings                        []string
}

// sameWay tells whether two rows differ in nothing but the variant.
func (r techniqueRow) sameWay(o techniqueRow) bool {
	return r.ID == o.ID && r.Control == o.Control && r.Reason == o.Reason && r.Chip == o.Chip && slices.Equal(r.Findings, o.Findings)
}

// groups lists every technique variant with what it did without and with the
// wall. A vector that supports no claim is left out.
func (e *evidence) groups() []techniqueGroup {
	var out []techniqueGroup
	at := map[string]int{}
	for _, v := range e.boundary.Battery.Vectors {
		if !e.stood(v.Vector) {
			continue
		}
		at[v.Vector] = len(out)
		out = append(out, techniqueGroup{ID: clean(v.Vector), Name: catalog.VectorTitle(catalog.Vector(v.Vector)), Chip: outcomeChip(v.Outcome)})
	}
	for _, t := range e.techniques {
		if i, ok := at[t.Vector]; ok {
			out[i].add(e.techniqueRow(t))
		}
	}
	for _, g := range out {
		for i := range g.Rows {
			g.Rows[i].Search = g.Rows[i].search()
		}
	}
	return out
}

// add joins a row to an earlier one that went the same way.
func (g *techniqueGroup) add(r techniqueRow) {
	for i := len(g.Rows) - 1; i >= 0 && g.Rows[i].ID == r.ID; i-- {
		if g.Rows[i].sameWay(r) {
			g.Rows[i].Variants = append(g.Rows[i].Variants, r.Variants...)
			return
		}
	}
	g.Rows = append(g.Rows, r)
}

func (r techniqueRow) search() string {
	return strings.ToLower(strings.Join([]string{r.ID, r.Title, strings.Join(r.Variants, " "), r.References, r.Reason, r.Chip.Word}, " "))
}

func (e *evidence) techniqueRow(t manifest.Technique) techniqueRow {
	known := e.catalog[t.Technique]
	r := techniqueRow{
		ID:         clean(t.Technique),
		Title:      clean(known.Title),
		References: clean(strings.Join(known.References, ", ")),
		Severity:   title(clean(t.Severity)),
		Control:    controlText(t),
		Reason:     reasonText(t),
		Kind:       outcomeChip(t.Outcome).Glyph,
		Chip:       outcomeChip(t.Outcome),
	}
	if t.Variant != "default" {
		r.Variants = []string{clean(t.Variant)}
	}
	if r.Title == "" {
		r.Title = r.ID
	}
	for _, f := range t.Findings {
		r.Findings = append(r.Findings, clean(findingWord(f.Kind)+": "+f.Detail))
	}
	return r
}

func findingWord(kind string) string {
	switch kind {
	case manifest.FindingExposure:
		return "Exposure"
	case manifest.FindingPermitted:
		return "Permitted by policy"
	}
	return kind
}

// controlText says what happened with the wall removed.
func controlText(t manifest.Technique) string {
	if t.NotApplicable != "" {
		return "Not run"
	}
	if t.Reason == judge.ReasonControlSilent {
		return "Did not succeed"
	}
	return "Succeeded"
}

// reasonWords says the judge's reason codes in words.
var reasonWords = map[string]string{
	judge.ReasonRefused:         "refused at once",
	judge.ReasonProxyDenied:     "refused by the proxy, on record",
	judge.ReasonProxyRedacted:   "redacted by the proxy, on record",
	judge.ReasonFilterDenied:    "refused by the packet filter, on record",
	judge.ReasonNothingUsable:   "ran, found nothing usable",
	judge.ReasonNeeds:           "needs what this fabric or policy lacks",
	judge.ReasonCanary:          "obtained a canary",
	judge.ReasonProof:           "read the witness's answer",
	judge.ReasonArrival:         "arrived at a witness",
	judge.ReasonControlSilent:   "its control stayed silent",
	judge.ReasonNoAttempt:       "no attempt on record",
	judge.ReasonCrashed:         "the probe crashed",
	judge.ReasonProbeError:      "the probe failed",
	judge.ReasonMissing:         "a tool was missing",
	judge.ReasonTimeout:         "timed out where a refusal was due",
	judge.ReasonFilterChanged:   "the packet filter changed meanwhile",
	judge.ReasonHeartbeatLost:   "the allowed path died meanwhile",
	judge.ReasonContradiction:   "both sides contradict each other",
	judge.ReasonNotAttributable: "no refusal attributable to it",
}

func reasonText(t manifest.Technique) string {
	if t.NotApplicable != "" {
		return strings.TrimSuffix(fmt.Sprintf("needs %s; %s", clean(t.NotApplicable), clean(t.Fact)), "; ")
	}
	if w := reasonWords[t.Reason]; w != "" {
		return w
	}
	return clean(t.Reason)
}
