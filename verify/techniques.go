package verify

import (
	"fmt"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/nonce"
)

// entryAt points to the line of entry n of the techniques.
func entryAt(n int) string { return fmt.Sprintf("%s:%d", packet.ManifestFile, n+2) }

func nameOf(e manifest.Technique) string {
	return fmt.Sprintf("%.100s/%.100s", e.Technique, e.Variant)
}

// techniques checks that each entry is a variant of a technique of the
// catalogue, as the catalogue has it, and stands there once.
func (i *inspection) techniques() bool {
	seen := map[string]bool{}
	ok := true
	for n, e := range i.derived.Manifest.Techniques {
		t, known := i.known.by[e.Technique]
		switch {
		case !known || !slices.Contains(t.Variants, e.Variant):
			i.fail(CheckCatalogue, CodeCatalogueTechnique, nameOf(e)+" is not in the catalogue", entryAt(n))
		case e.Vector != string(t.Vector) || e.Severity != string(t.Severity):
			i.fail(CheckCatalogue, CodeCatalogueTechnique, nameOf(e)+" has another vector or severity than in the catalogue", entryAt(n))
		case seen[nameOf(e)]:
			i.fail(CheckCatalogue, CodeOutcomesDouble, nameOf(e)+" is recorded twice", entryAt(n))
		default:
			seen[nameOf(e)] = true
			continue
		}
		ok = false
	}
	return ok
}

// outcomes judges every entry again and compares.
func (i *inspection) outcomes() {
	key, ok := i.nonceKey()
	if !ok {
		i.skip(CheckOutcomes, CodeNotAuthenticated, "without the nonce key no proof can be computed", "")
		return
	}
	m := i.derived.Manifest
	differ := 0
	for n, e := range m.Techniques {
		v := judge.Judge(i.known.by[e.Technique], e, judge.Proofs{Control: proof(key, e.Control), Attack: proof(key, e.Attack)})
		if string(v.Outcome) != e.Outcome || v.Reason != e.Reason || !slices.Equal(e.Findings, v.Findings) {
			if differ++; differ <= maxListed {
				i.fail(CheckOutcomes, CodeOutcomesDiffer, fmt.Sprintf("%s is recorded as %.40s (%.60s); its observations give %s (%s)",
					nameOf(e), e.Outcome, e.Reason, v.Outcome, v.Reason), entryAt(n))
			}
		}
		e.Outcome, e.Reason = string(v.Outcome), v.Reason
		i.derived.Judged = append(i.derived.Judged, e)
	}
	i.derived.Vectors = judge.Vectors(i.known.list, i.derived.Judged)
	if differ == 0 {
		i.pass(CheckOutcomes, CodeOutcomesOK, fmt.Sprintf("%d outcomes follow from what both sides saw", len(m.Techniques)), packet.ManifestFile)
	}
}

func proof(key []byte, p manifest.Phase) string {
	if p.Nonce == "" {
		return ""
	}
	return nonce.Proof(key, p.Nonce)
}
