package battery

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/probes/catalog"
)

// choose returns the techniques that a selection is about, in the catalogue's
// order. A word that the catalogue does not know, or a selection that leaves
// nothing, is an error.
func choose(s *manifest.Selection) ([]catalog.Technique, error) {
	all := catalog.All()
	if s == nil {
		return all, nil
	}
	for _, ids := range [][]string{s.Only, s.Skip} {
		for _, id := range ids {
			if _, ok := catalog.Lookup(id); !ok {
				return nil, fmt.Errorf("there is no technique %q; `wallproof probes list` lists them", id)
			}
		}
	}
	for _, v := range s.Vectors {
		if !slices.Contains(catalog.Vectors(), catalog.Vector(v)) {
			return nil, fmt.Errorf("there is no vector %q; there are: %v", v, catalog.Vectors())
		}
	}
	out := parts.Selected(all, s)
	if len(out) == 0 {
		return nil, errors.New("the selection leaves no technique to run; widen --only or --vector, or shorten --skip")
	}
	return out, nil
}
