package battery

import (
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
)

// planned is one technique variant of the plan.
type planned struct {
	technique catalog.Technique
	variant   string
	stage     catalog.Stage
	missing   catalog.Requirement // the first requirement that is not met, or ""
	fact      string              // what was found instead
}

// plan lists every variant of the catalogue, in its order. unmet maps a
// requirement that this stack, driver or policy does not meet to the fact that
// says so.
func plan(techniques []catalog.Technique, unmet parts.Unmet) []planned {
	var out []planned
	for _, t := range techniques {
		for _, v := range t.Variants {
			p := planned{technique: t, variant: v, stage: t.StageOf(v)}
			p.missing, p.fact = unmet.First(t, v)
			out = append(out, p)
		}
	}
	return out
}

// applicable returns the variants of a stage that can run.
func applicable(all []planned, stage catalog.Stage) []planned {
	var out []planned
	for _, p := range all {
		if p.stage == stage && p.missing == "" {
			out = append(out, p)
		}
	}
	return out
}

// nonceOf is a variant's nonce in a phase.
func (r *run) nonceOf(p planned, phase string) string {
	return nonce.New(r.nonceKey, r.id, p.technique.ID, p.variant, phase)
}

// entry is a variant's row before it is judged.
func (r *run) entry(p planned) manifest.Technique {
	return manifest.Technique{
		Technique: p.technique.ID, Vector: string(p.technique.Vector), Variant: p.variant, Severity: string(p.technique.Severity),
		NotApplicable: string(p.missing), Fact: p.fact,
		Control: manifest.Phase{Nonce: r.nonceOf(p, nonce.PhaseControl), Observations: []manifest.Observation{}},
		Attack:  manifest.Phase{Nonce: r.nonceOf(p, nonce.PhaseAttack), Observations: []manifest.Observation{}},
	}
}
