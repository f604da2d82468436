package attempts

import (
	"maps"
	"slices"
	"testing"

	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/inj"
)

// Every technique of the catalogue has one attempt, in the probe or, for the
// vector INJ, in the agent; and every attempt is a technique's.
func TestOneAttemptEach(t *testing.T) {
	have := slices.Collect(maps.Keys(All()))
	if !slices.Contains(have, probes.HeartbeatID) {
		t.Error("no heartbeat")
	}
	have = slices.DeleteFunc(have, func(id string) bool { return id == probes.HeartbeatID })
	have = append(have, inj.IDs()...)
	var want []string
	for _, tech := range catalog.All() {
		want = append(want, tech.ID)
		if inAgent := slices.Contains(inj.IDs(), tech.ID); inAgent != (tech.Vector == catalog.INJ) {
			t.Errorf("%s: vector %s, in the agent: %v", tech.ID, tech.Vector, inAgent)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	for _, id := range want {
		if !slices.Contains(have, id) {
			t.Errorf("%s has no attempt", id)
		}
	}
	for _, id := range have {
		if !slices.Contains(want, id) {
			t.Errorf("%s is not in the catalogue", id)
		}
	}
	if len(have) != len(slices.Compact(have)) {
		t.Error("a technique has two attempts")
	}
}
