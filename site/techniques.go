package site

import (
	"fmt"
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

type techniqueRow struct {
	ID, Variant, Title, References, Severity string
	Control, Reason, Kind, Search            string
	Chip                                     chip
	Findings                                 []string
}

// groups lists every technique variant with what it did without and with the
// wall. A vector that supports no claim is left out.
func (e *evidence) groups() []techniqueGroup {
	var out []techniqueGroup
	at := map[string]int{}
	for _, v := range e.boundary.Battery.Vectors {
		if !e.conclusive(v.Vector) {
			continue
		}
		at[v.Vector] = len(out)
		out = append(out, techniqueGroup{ID: clean(v.Vector), Name: catalog.VectorTitle(catalog.Vector(v.Vector)), Chip: outcomeChip(v.Outcome)})
	}
	for _, t := range e.techniques {
		if i, ok := at[t.Vector]; ok {
			out[i].Rows = append(out[i].Rows, e.techniqueRow(t))
		}
	}
	return out
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
		r.Variant = clean(t.Variant)
	}
	if r.Title == "" {
		r.Title = r.ID
	}
	for _, f := range t.Findings {
		r.Findings = append(r.Findings, clean(findingWord(f.Kind)+": "+f.Detail))
	}
	r.Search = strings.ToLower(strings.Join([]string{r.ID, r.Title, r.Variant, r.References, t.Reason, r.Chip.Word}, " "))
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
