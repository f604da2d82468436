package verify

import (
	"fmt"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/paths"
)

// placed checks that an attempt of a phase ran in the sandbox that the catalogue
// has for it, and that who saw it there saw it there.
func (i *inspection) placed(s side, n int, e manifest.Technique) bool {
	t, known := i.known.by[e.Technique]
	if !known {
		return true // refused with the catalogue
	}
	p := s.phase(e)
	if want := string(t.StageOf(e.Variant)); p.Sandbox != want {
		i.fail(CheckObservations, CodeSandbox, fmt.Sprintf("%s: the %s is recorded in sandbox %.60q, it runs in %q", nameOf(e), s.name, p.Sandbox, want), entryAt(n))
		return false
	}
	for _, o := range p.Observations {
		inside := o.Side == manifest.SideProbe || o.Side == manifest.SideProxy || o.Side == manifest.SideFilter
		if inside && o.Sandbox != "" && o.Sandbox != p.Sandbox {
			i.fail(CheckObservations, CodeSandbox, fmt.Sprintf("%s: the %s of sandbox %q has an observation of %.60q", nameOf(e), s.name, p.Sandbox, o.Sandbox), entryAt(n))
			return false
		}
	}
	return true
}

// beatSlack is how far a heartbeat may lie on the wrong side of an attempt: the
// probe stamps lines when they end, and writes them side by side.
const beatSlack = 2 * time.Second

// beatsInOrder checks that the heartbeats of a sandbox lie around its attempts,
// by the probe's own clock. One that is not there is the judge's affair.
func (i *inspection) beatsInOrder(s side, seen seenSide, key []byte, sandbox string) bool {
	run := i.derived.Manifest.Run.RunID
	var own, attempts span
	beats := map[string]*span{}
	nonces := map[string]string{}
	for _, position := range []string{judge.Before, judge.Between, judge.After} {
		nonces[judge.HeartbeatNonce(key, run, sandbox, position, s.name)] = position
		beats[position] = &span{}
	}
	for n, o := range seen.all {
		if o.Side != manifest.SideProbe {
			continue
		}
		if position, ok := nonces[o.Nonce]; ok {
			beats[position].add(seen.times[n])
			own.add(seen.times[n])
		} else if o.Sandbox == sandbox {
			attempts.add(seen.times[n])
		}
	}
	before, between, after := *beats[judge.Before], *beats[judge.Between], *beats[judge.After]
	if own.empty() || (before.precedes(attempts) && attempts.precedes(after) && before.precedes(between) && between.precedes(after) && before.precedes(after)) {
		return true
	}
	i.fail(CheckObservations, CodeHeartbeatOrder, fmt.Sprintf("the heartbeats of sandbox %.60q in the %s do not lie before, between and after its attempts", sandbox, s.name), s.file)
	return false
}

// span is the time from the first to the last of some moments.
type span struct{ from, to time.Time }

func (s span) empty() bool { return s.from.IsZero() }

func (s *span) add(t time.Time) {
	if s.empty() || t.Before(s.from) {
		s.from = t
	}
	if t.After(s.to) {
		s.to = t
	}
}

// precedes tells whether all of s lies before all of o, where both have moments.
func (s span) precedes(o span) bool {
	return s.empty() || o.empty() || !s.to.After(o.from.Add(beatSlack))
}

// permittedServices are where secrets arrive because the policy injects them
// there, whoever asks.
var permittedServices = []string{paths.ServiceAllowed, paths.ServiceForge, paths.ServiceRegistry, paths.ServiceModel}

// unclaimed holds the claim when a canary got out in the name of no attempt: no
// entry carries it, and it is a critical escape nevertheless.
func (i *inspection) unclaimed(o manifest.Observation, evidence string) {
	if len(o.Obtained) == 0 || (o.Side == manifest.SideWitness && slices.Contains(permittedServices, o.Service)) {
		return
	}
	i.derived.unclaimed++
	i.hold(CheckBattery, CodeEscapeUnclaimed, fmt.Sprintf("a canary was obtained at %.60q (%s) in the name of no attempt", o.Service, o.Side), evidence)
}
