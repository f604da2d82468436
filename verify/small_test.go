package verify_test

import (
	"slices"

	"github.com/wallproof/wallproof/probes/catalog"
)

// small is a catalogue with at most three techniques a vector: the first that is
// required, the first below critical severity and the first that is local or
// goes through a permitted service. Each has one variant. It is enough for every
// rule, and fast.
func small() []catalog.Technique {
	var out []catalog.Technique
	for _, v := range catalog.Vectors() {
		for _, wanted := range []func(catalog.Technique) bool{
			func(t catalog.Technique) bool { return t.Required },
			func(t catalog.Technique) bool { return t.Severity != catalog.Critical },
			func(t catalog.Technique) bool { return t.Local || len(t.Permits) > 0 },
		} {
			for _, t := range catalog.All() {
				if t.Vector == v && wanted(t) && !slices.ContainsFunc(out, func(o catalog.Technique) bool { return o.ID == t.ID }) {
					t.Variants = slices.Clone(t.Variants[:1])
					out = append(out, t)
					break
				}
			}
		}
	}
	return out
}
