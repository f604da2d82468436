package snp

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// random draws random bytes and compares them with what a twin, restored from the
// same snapshot, has drawn.
func random(_ context.Context, env *probes.Env) manifest.Observation {
	twin := env.Facts.Twin
	if len(twin) == 0 {
		return kit.Missing("nothing is known of a twin")
	}
	mine := kit.Draws()
	var same []string
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		if twin[name] == mine[name] {
			same = append(same, name)
		}
	}
	if len(same) == 0 {
		return manifest.Observation{Sign: manifest.SignAbsent, Detail: "the twin has drawn other bytes"}
	}
	return manifest.Observation{Sign: manifest.SignReached, Detail: "the twin has drawn the same bytes from " + strings.Join(same, " ")}
}
