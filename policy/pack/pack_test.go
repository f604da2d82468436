package pack

import (
	"slices"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
)

// What a pack holds is in normal form, reads only, and can be pinned where it is
// a registry.
func TestPacks(t *testing.T) {
	if len(All()) < 7 || len(Names()) != len(All()) {
		t.Fatalf("%d packs, %d names", len(All()), len(Names()))
	}
	seen := map[string]bool{}
	for _, p := range All() {
		if got, ok := Lookup(p.Name); !ok || got.Title != p.Title || p.Title == "" || len(p.Hosts) == 0 {
			t.Errorf("%s: %+v, %t", p.Name, got, ok)
		}
		for _, h := range p.Hosts {
			if parsed, err := host.Parse(h.Name); err != nil || parsed.Name() != h.Name {
				t.Errorf("%s: %s is not in normal form: %v", p.Name, h.Name, err)
			}
			if seen[h.Name] {
				t.Errorf("%s is in two packs", h.Name)
			}
			seen[h.Name] = true
			if !slices.IsSorted(h.Methods) || !slices.IsSorted(h.Artefacts) || !slices.IsSorted(h.Ports) {
				t.Errorf("%s: lists of %s are not sorted", p.Name, h.Name)
			}
			for _, m := range h.Methods {
				if m != "GET" && m != "HEAD" && (m != "POST" || p.Registry) {
					t.Errorf("%s: %s allows %s", p.Name, h.Name, m)
				}
			}
			if len(h.Methods) == 0 || p.Registry == (h.Artefacts == nil) {
				t.Errorf("%s: %s has methods %v, artefacts %v", p.Name, h.Name, h.Methods, h.Artefacts)
			}
		}
	}
	if _, ok := Lookup("nmp"); ok {
		t.Error("there is a pack nmp")
	}
}
