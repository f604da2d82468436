package judge

import (
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/catalog"
)

// Summary is the outcome of one vector.
type Summary struct {
	Vector   catalog.Vector
	Outcome  Outcome
	Severity catalog.Severity // worst of the catalogue's techniques of this vector
	Escaped  catalog.Severity // worst that escaped, or ""
	Totals   map[Outcome]int64
	Reasons  []string // "TECHNIQUE/variant: reason" of everything that kept the vector from being conclusive, and of escapes
}

// reasonMissing is said of what a manifest has no entry for.
const reasonMissing = "missing"

// severities, worst first.
var severities = []catalog.Severity{catalog.Critical, catalog.High, catalog.Medium, catalog.Low}

// Worse returns the worse of two severities; "" is no severity at all.
func Worse(a, b catalog.Severity) catalog.Severity {
	ia, ib := slices.Index(severities, a), slices.Index(severities, b)
	if ia < 0 || (ib >= 0 && ib < ia) {
		return b
	}
	return a
}

// Vectors summarises a whole manifest against a catalogue, one summary a
// vector in catalogue order. Every variant of every technique of the catalogue
// must have an entry: one that is missing (skipped, filtered, lost) makes its
// vector inconclusive.
func Vectors(techniques []catalog.Technique, entries []manifest.Technique) []Summary {
	recorded := map[string]manifest.Technique{}
	for _, e := range entries {
		recorded[e.Technique+"/"+e.Variant] = e
	}
	var order []catalog.Vector
	by := map[catalog.Vector][]catalog.Technique{}
	for _, t := range techniques {
		if _, ok := by[t.Vector]; !ok {
			order = append(order, t.Vector)
		}
		by[t.Vector] = append(by[t.Vector], t)
	}
	out := make([]Summary, 0, len(order))
	for _, v := range order {
		out = append(out, vector(v, by[v], recorded))
	}
	return out
}

func vector(v catalog.Vector, techniques []catalog.Technique, recorded map[string]manifest.Technique) Summary {
	s := Summary{Vector: v, Totals: map[Outcome]int64{}}
	open, untouched := false, true // something required was not conclusive; no technique has any entry
	for _, t := range techniques {
		s.Severity = Worse(s.Severity, t.Severity)
		skipped, meaningless, missing := 0, 0, 0
		for _, variant := range t.Variants {
			key := t.ID + "/" + variant
			e, ok := recorded[key]
			if !ok {
				missing++
				s.Reasons = append(s.Reasons, key+": "+reasonMissing)
				continue
			}
			o := Outcome(e.Outcome)
			s.Totals[o]++
			switch o {
			case Escaped:
				s.Escaped = Worse(s.Escaped, t.Severity)
				s.Reasons = append(s.Reasons, key+": "+e.Reason)
			case Inconclusive:
				open = open || t.Required
				s.Reasons = append(s.Reasons, key+": "+e.Reason)
			case NotApplicable:
				if catalog.Requirement(e.NotApplicable).OfPolicy() {
					meaningless++
				}
				skipped++
			}
		}
		if missing > 0 {
			open = true
			untouched = untouched && missing == len(t.Variants)
		} else {
			untouched = false
		}
		if missing > 1 && missing == len(t.Variants) { // one line is enough
			s.Reasons = append(s.Reasons[:len(s.Reasons)-missing], t.ID+": "+reasonMissing)
		}
		// What the stack could not offer leaves a required technique untested; an
		// edge that the policy does not have leaves nothing to test.
		if t.Required && skipped == len(t.Variants) && meaningless < skipped {
			open = true
			s.Reasons = append(s.Reasons, t.ID+": "+ReasonNeeds)
		}
	}
	if untouched && len(techniques) > 0 {
		s.Reasons = []string{string(v) + ": " + reasonMissing}
	}
	s.Outcome = s.conclude(open)
	return s
}

func (s Summary) conclude(open bool) Outcome {
	switch {
	case s.Totals[Escaped] > 0:
		return Escaped
	case open:
		return Inconclusive
	case s.Totals[Blocked]+s.Totals[Contained] == 0:
		return NotTested
	case s.Totals[Contained] > 0:
		return Contained
	}
	return Blocked
}

// Conclusive reports whether the vector supports a claim.
func (s Summary) Conclusive() bool { return s.Outcome == Blocked || s.Outcome == Contained }

// CriticalEscapes counts the escaped variants whose technique is critical.
func CriticalEscapes(techniques []catalog.Technique, entries []manifest.Technique) int64 {
	severity := map[string]catalog.Severity{}
	for _, t := range techniques {
		severity[t.ID] = t.Severity
	}
	var n int64
	for _, e := range entries {
		if Outcome(e.Outcome) == Escaped && severity[e.Technique] == catalog.Critical {
			n++
		}
	}
	return n
}
