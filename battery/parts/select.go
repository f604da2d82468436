package parts

import (
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/catalog"
)

// Selected returns the techniques of a catalogue that a selection is about, in
// order; all of them where there is none.
func Selected(list []catalog.Technique, s *manifest.Selection) []catalog.Technique {
	if s == nil {
		return list
	}
	var out []catalog.Technique
	for _, t := range list {
		if (len(s.Vectors) == 0 || slices.Contains(s.Vectors, string(t.Vector))) &&
			(len(s.Only) == 0 || slices.Contains(s.Only, t.ID)) && !slices.Contains(s.Skip, t.ID) {
			out = append(out, t)
		}
	}
	return out
}
