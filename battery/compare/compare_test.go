package compare

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
)

func TestIncomparable(t *testing.T) {
	base := manifest.Run{RunID: "a", Image: manifest.Image{Digest: "sha256:1", Reference: "x"}, PolicyDigest: "sha256:2",
		Driver: manifest.Driver{Name: "gvisor", Version: "1", ConfigDigest: "sha256:3"}, CatalogDigest: "sha256:4"}
	tests := []struct {
		change func(*manifest.Run)
		want   []string
	}{
		{func(r *manifest.Run) { r.RunID, r.Started, r.Image.Reference = "b", "later", "mirror/x" }, nil},
		{func(r *manifest.Run) { r.Image.Digest = "sha256:9" }, []string{"image"}},
		{func(r *manifest.Run) { r.PolicyDigest = "sha256:9" }, []string{"policy"}},
		{func(r *manifest.Run) { r.Driver.Version = "2" }, []string{"driver"}},
		{func(r *manifest.Run) { r.Driver.ConfigDigest = "sha256:9" }, []string{"driver"}},
		{func(r *manifest.Run) { r.Driver.Name, r.CatalogDigest = "runc", "sha256:9" }, []string{"driver", "catalogue"}},
	}
	for i, tt := range tests {
		other := base
		tt.change(&other)
		var got []string
		for _, r := range Incomparable(base, other) {
			got = append(got, r.What)
			if r.A == r.B {
				t.Errorf("%d: %s: both sides are %q", i, r.What, r.A)
			}
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%d: got %v, want %v", i, got, tt.want)
		}
	}
}

// entries makes "ID/variant=outcome" into entries.
func entries(pairs ...string) []manifest.Technique {
	var out []manifest.Technique
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, manifest.Technique{Technique: pairs[i], Variant: "default", Vector: pairs[i][:3], Outcome: pairs[i+1], Reason: "because"})
	}
	return out
}

func TestChanges(t *testing.T) {
	a := entries("NET-A", "blocked", "NET-B", "blocked", "NET-C", "escaped")
	b := entries("NET-C", "blocked", "NET-A", "blocked", "NET-D", "contained")
	var got []string
	for _, c := range Changes(a, b) {
		got = append(got, fmt.Sprintf("%s %s>%s", c.Technique, c.A, c.B))
	}
	want := []string{"NET-B blocked>missing", "NET-C escaped>blocked", "NET-D missing>contained"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c := Changes(a, a); len(c) != 0 {
		t.Errorf("a run differs from itself: %v", c)
	}
}

func TestFlakes(t *testing.T) {
	runs := [][]manifest.Technique{
		entries("NET-A", "blocked", "NET-B", "blocked", "NET-C", "contained"),
		entries("NET-A", "blocked", "NET-B", "escaped", "NET-C", "contained"),
		entries("NET-A", "blocked", "NET-B", "blocked"),
	}
	got := Flakes(runs)
	want := []Flake{
		{"NET-B", "default", "NET", map[judge.Outcome]int64{judge.Blocked: 2, judge.Escaped: 1}, []string{"run 2: escaped, because"}, judge.Escaped},
		{"NET-C", "default", "NET", map[judge.Outcome]int64{judge.Contained: 2, Missing: 1}, []string{"run 3: missing"}, Missing},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
