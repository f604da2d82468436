// Package compare sets the outcomes of several runs side by side: whether two
// runs can be compared at all, what differs between them, and which variants of
// a series of runs did not come out the same each time. It is pure: manifests
// in, differences out.
package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
)

// Missing is the outcome of a variant that a run has no entry for: it was left
// out, or its catalogue does not have it.
const Missing judge.Outcome = "missing"

// Reason says why two runs cannot be compared: they differ in something that
// decides outcomes.
type Reason struct {
	What string `json:"what"` // "image", "policy", "driver", "catalogue"
	A    string `json:"a"`
	B    string `json:"b"`
}

// Incomparable returns why two runs cannot be compared; nothing when both are of
// one image, one policy, one driver in one version and configuration, and one
// catalogue.
func Incomparable(a, b manifest.Run) []Reason {
	var out []Reason
	differ := func(what, x, y string) {
		if x != y {
			out = append(out, Reason{what, x, y})
		}
	}
	differ("image", a.Image.Digest, b.Image.Digest)
	differ("policy", a.PolicyDigest, b.PolicyDigest)
	differ("driver", driver(a.Driver), driver(b.Driver))
	differ("catalogue", a.CatalogDigest, b.CatalogDigest)
	return out
}

func driver(d manifest.Driver) string {
	return strings.Join([]string{d.Name, d.Version, d.ConfigDigest}, " ")
}

// Change is one variant that came out differently.
type Change struct {
	Technique string        `json:"technique"`
	Variant   string        `json:"variant"`
	Vector    string        `json:"vector"`
	A         judge.Outcome `json:"a"`
	AReason   string        `json:"aReason,omitempty"`
	B         judge.Outcome `json:"b"`
	BReason   string        `json:"bReason,omitempty"`
}

// Changes lists the variants whose outcome differs, in A's order and then, for
// what only B has, in B's.
func Changes(a, b []manifest.Technique) []Change {
	in := index(b)
	var out []Change
	for _, x := range a {
		y, ok := in[key(x)]
		if !ok {
			y = manifest.Technique{Outcome: string(Missing)}
		}
		if x.Outcome != y.Outcome {
			out = append(out, Change{x.Technique, x.Variant, x.Vector, judge.Outcome(x.Outcome), x.Reason, judge.Outcome(y.Outcome), y.Reason})
		}
	}
	known := index(a)
	for _, y := range b {
		if _, ok := known[key(y)]; !ok {
			out = append(out, Change{y.Technique, y.Variant, y.Vector, Missing, "", judge.Outcome(y.Outcome), y.Reason})
		}
	}
	return out
}

func key(t manifest.Technique) string { return t.Technique + "/" + t.Variant }

func index(list []manifest.Technique) map[string]manifest.Technique {
	out := make(map[string]manifest.Technique, len(list))
	for _, t := range list {
		out[key(t)] = t
	}
	return out
}

// Flake is one variant that did not come out the same in every run of a series.
type Flake struct {
	Technique string                  `json:"technique"`
	Variant   string                  `json:"variant"`
	Vector    string                  `json:"vector"`
	Outcomes  map[judge.Outcome]int64 `json:"outcomes"` // how often each
	Reasons   []string                `json:"reasons"`  // "run N: outcome, reason" of every run that is not like most
	Verdict   judge.Outcome           `json:"verdict"`  // the worst: what the series as a whole says
}

// worst orders outcomes: an escape in one run is an escape, whatever the others
// say.
var worst = []judge.Outcome{judge.Escaped, judge.Inconclusive, Missing, judge.NotTested, judge.NotApplicable, judge.Contained, judge.Blocked}

// Flakes lists the variants whose outcome is not the same in every run, in the
// order of the first run that has them.
func Flakes(runs [][]manifest.Technique) []Flake {
	indexes := make([]map[string]manifest.Technique, len(runs))
	for i, r := range runs {
		indexes[i] = index(r)
	}
	seen := map[string]bool{}
	var out []Flake
	for _, r := range runs {
		for _, t := range r {
			if seen[key(t)] {
				continue
			}
			seen[key(t)] = true
			if f, flaky := flake(t, indexes); flaky {
				out = append(out, f)
			}
		}
	}
	return out
}

func flake(t manifest.Technique, runs []map[string]manifest.Technique) (Flake, bool) {
	f := Flake{Technique: t.Technique, Variant: t.Variant, Vector: t.Vector, Outcomes: map[judge.Outcome]int64{}}
	outcome := func(i int) (judge.Outcome, string) {
		if x, ok := runs[i][key(t)]; ok {
			return judge.Outcome(x.Outcome), x.Reason
		}
		return Missing, ""
	}
	var usual judge.Outcome
	for i := range runs {
		o, _ := outcome(i)
		if f.Outcomes[o]++; f.Outcomes[o] > f.Outcomes[usual] {
			usual = o
		}
	}
	for i := range runs {
		if o, reason := outcome(i); o != usual {
			f.Reasons = append(f.Reasons, strings.TrimSuffix(fmt.Sprintf("run %d: %s, %s", i+1, o, reason), ", "))
		}
	}
	f.Verdict = slices.MinFunc(slices.Collect(maps.Keys(f.Outcomes)), func(a, b judge.Outcome) int { return slices.Index(worst, a) - slices.Index(worst, b) })
	return f, len(f.Outcomes) > 1
}
