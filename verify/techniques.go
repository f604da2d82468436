package verify

import (
	"fmt"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/parts"
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
	return ok && i.complete(seen)
}

// complete checks that every variant that the run was about has an entry, and no
// other: a technique that is left out in silence is one that was taken out.
func (i *inspection) complete(seen map[string]bool) bool {
	if n := i.disorder(); n >= 0 {
		i.fail(CheckCatalogue, CodeTechniqueOrder, nameOf(i.derived.Manifest.Techniques[n])+" does not stand in the catalogue's order", entryAt(n))
		return false
	}
	left := len(seen)
	missing := 0
	for _, t := range parts.Selected(i.known.list, i.derived.Manifest.Run.Selection) {
		for _, v := range t.Variants {
			if seen[t.ID+"/"+v] {
				left--
			} else if missing++; missing <= maxListed {
				i.fail(CheckCatalogue, CodeTechniqueMissing, t.ID+"/"+v+" has no entry, and entry 0 names no selection that leaves it out", packet.ManifestFile)
			}
		}
	}
	if left > 0 {
		i.fail(CheckCatalogue, CodeTechniqueMissing, fmt.Sprintf("%d entries are not of what entry 0 says was selected", left), packet.ManifestFile)
	}
	return missing == 0 && left == 0
}

// disorder is the number of the first entry that does not stand in the
// catalogue's order, or −1.
func (i *inspection) disorder() int {
	place := map[string]int{}
	for _, t := range i.known.list {
		for _, v := range t.Variants {
			place[t.ID+"/"+v] = len(place)
		}
	}
	last := -1
	for n, e := range i.derived.Manifest.Techniques {
		at := place[e.Technique+"/"+e.Variant]
		if at < last {
			return n
		}
		last = at
	}
	return -1
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
