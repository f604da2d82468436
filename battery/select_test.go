package battery

import (
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/catalog"
)

func TestChoose(t *testing.T) {
	tests := []struct {
		name string
		sel  *manifest.Selection
		want string // ids, or
		err  string
	}{
		{"two by id, in the catalogue's order", &manifest.Selection{Only: []string{"NET-UDP", "NET-TCP"}}, "NET-TCP NET-UDP", ""},
		{"an id outside the vector", &manifest.Selection{Only: []string{"NET-TCP", "IMD-ECS"}, Vectors: []string{"IMD"}}, "IMD-ECS", ""},
		{"skip wins", &manifest.Selection{Only: []string{"NET-TCP", "NET-UDP"}, Skip: []string{"NET-TCP"}}, "NET-UDP", ""},
		{"unknown id", &manifest.Selection{Only: []string{"NET-TCPP"}}, "", `"NET-TCPP"`},
		{"unknown id to skip", &manifest.Selection{Skip: []string{"nope"}}, "", "probes list"},
		{"unknown vector", &manifest.Selection{Vectors: []string{"XYZ"}}, "", "there are: [TOK"},
		{"nothing left", &manifest.Selection{Only: []string{"NET-TCP"}, Skip: []string{"NET-TCP"}}, "", "no technique to run"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := choose(tt.sel)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			var ids []string
			for _, x := range list {
				ids = append(ids, x.ID)
			}
			if got := strings.Join(ids, " "); err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	if list, err := choose(nil); err != nil || len(list) != len(catalog.All()) {
		t.Errorf("no selection: %d techniques, %v", len(list), err)
	}
}

// TestSkippedIsInconclusive: what was left out keeps its vector from supporting
// a claim, and touches no other.
func TestSkippedIsInconclusive(t *testing.T) {
	list, err := choose(&manifest.Selection{Skip: []string{"IMD-ECS"}})
	if err != nil {
		t.Fatal(err)
	}
	var entries []manifest.Technique
	for _, p := range plan(list, nil) {
		entries = append(entries, manifest.Technique{Technique: p.technique.ID, Variant: p.variant, Vector: string(p.technique.Vector), Outcome: string(judge.Blocked)})
	}
	for _, s := range judge.Vectors(catalog.All(), entries) {
		want := judge.Blocked
		if s.Vector == catalog.IMD {
			want = judge.Inconclusive
		}
		if s.Outcome != want {
			t.Errorf("%s is %s, want %s", s.Vector, s.Outcome, want)
		}
	}
}
