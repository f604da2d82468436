package verify

import (
	"fmt"
	"maps"

	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/probes/catalog"
)

// applicable plans the battery again, from the packet's own policy and the facts
// of entry 0, and compares: what is said not to apply must be what does not, for
// the same reason and with the same fact, and what ran must be what applies.
func (i *inspection) applicable() {
	unmet := parts.UnmetByStack(i.derived.Manifest.Run.Driver.Isolation)
	maps.Copy(unmet, i.unmetByPolicy())
	differ := 0
	for n, e := range i.derived.Manifest.Techniques {
		want, fact := unmet.First(i.known.by[e.Technique], e.Variant)
		if want == catalog.Requirement(e.NotApplicable) && fact == e.Fact {
			continue
		}
		if differ++; differ <= maxListed {
			i.fail(CheckOutcomes, CodeNotApplicable, fmt.Sprintf("%s is recorded with unmet requirement %s; policy and entry 0 give %s",
				nameOf(e), requirement(e.NotApplicable, e.Fact), requirement(string(want), fact)), entryAt(n))
		}
	}
}

// requirement is how a line names a requirement that is not met.
func requirement(name, fact string) string {
	if name == "" && fact == "" {
		return "none"
	}
	return fmt.Sprintf("%.60q (%.120s)", name, fact)
}

// unmetByPolicy are the requirements that the packet's policy does not meet. Of a
// policy that cannot be read here, which has a line of its own, the entries tell.
func (i *inspection) unmetByPolicy() parts.Unmet {
	if i.parts != nil {
		return i.parts.Unmet()
	}
	out := parts.Unmet{}
	for _, e := range i.derived.Manifest.Techniques {
		if r := catalog.Requirement(e.NotApplicable); r.OfPolicy() {
			out[r] = e.Fact
		}
	}
	return out
}
