package verify

import (
	"fmt"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/probes/catalog"
)

// applicable checks what is said not to apply. A requirement is met or not met
// by the whole run, so one that is unmet takes every variant that needs it out,
// with the same fact, and no variant that ran needs it. Of several unmet
// requirements a variant names the first. Where entry 0 has what was measured
// inside, that must not say the contrary.
func (i *inspection) applicable() {
	entries := i.derived.Manifest.Techniques
	facts := map[catalog.Requirement]string{}
	for n, e := range entries {
		if e.NotApplicable == "" {
			if e.Fact != "" {
				i.fail(CheckOutcomes, CodeNotApplicable, nameOf(e)+" applies and has a fact why it does not", entryAt(n))
			}
			continue
		}
		r := catalog.Requirement(e.NotApplicable)
		fact, seen := facts[r]
		if seen && fact != e.Fact {
			i.fail(CheckOutcomes, CodeNotApplicable, fmt.Sprintf("%s: requirement %.60s is unmet for another fact than elsewhere", nameOf(e), r), entryAt(n))
			return
		}
		facts[r] = e.Fact
	}
	for n, e := range entries {
		want := firstUnmet(i.known.by[e.Technique].RequiresOf(e.Variant), facts)
		if want != catalog.Requirement(e.NotApplicable) {
			i.fail(CheckOutcomes, CodeNotApplicable, fmt.Sprintf("%s says %q of what it requires and is unmet, the other entries give %q", nameOf(e), e.NotApplicable, want), entryAt(n))
			return
		}
	}
	i.measured(facts)
}

// firstUnmet is the first of a variant's requirements that is unmet, or "".
func firstUnmet(list []catalog.Requirement, unmet map[catalog.Requirement]string) catalog.Requirement {
	for _, r := range list {
		if _, ok := unmet[r]; ok {
			return r
		}
	}
	return ""
}

// measured holds what is said to be unmet against the facts of entry 0.
func (i *inspection) measured(unmet map[catalog.Requirement]string) {
	run := i.derived.Manifest.Run
	for r := range unmet {
		if met(r, run) {
			i.fail(CheckOutcomes, CodeNotApplicable, fmt.Sprintf("requirement %s is said to be unmet, but entry 0 says that it was there", r), packet.ManifestFile+":1")
		}
	}
}

// met tells whether what was measured inside shows that a requirement is met.
func met(r catalog.Requirement, run manifest.Run) bool {
	facts := run.Driver.Isolation
	switch r {
	case catalog.NeedsIPv6:
		return facts["ipv6"] == "yes"
	case catalog.NeedsRoot:
		return facts["uid"] == "0"
	}
	name := r.Fact()
	return name != "" && facts[name] == "yes"
}
