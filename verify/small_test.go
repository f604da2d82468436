package verify_test

import (
	"slices"

	"github.com/wallproof/wallproof/probes/catalog"
)

// small is a catalogue with two techniques a vector, one of them critical or
// required where the vector has such, each with one variant: enough for every
// rule, and fast.
func small() []catalog.Technique {
	var out []catalog.Technique
	for _, v := range catalog.Vectors() {
		n := 0
		for _, t := range catalog.All() {
			if t.Vector != v || n == 2 || (n == 0 && !t.Required) {
				continue
			}
			t.Variants = slices.Clone(t.Variants[:1])
			out = append(out, t)
			n++
		}
	}
	return out
}
