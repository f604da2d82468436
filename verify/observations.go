package verify

import (
	"fmt"
	"reflect"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/nonce"
)

// side is one phase's observation file and the entries' view of it.
type side struct {
	name  string
	file  string
	phase func(manifest.Technique) manifest.Phase
}

var sides = []side{
	{nonce.PhaseControl, packet.ControlFile, func(t manifest.Technique) manifest.Phase { return t.Control }},
	{nonce.PhaseAttack, packet.AttackFile, func(t manifest.Technique) manifest.Phase { return t.Attack }},
}

// observations compares the files of both phases with the manifest's entries,
// recomputes nonces and heartbeats, and refuses observations that belong to
// nobody.
func (i *inspection) observations() {
	key, ok := i.nonceKey()
	if !ok {
		return
	}
	total := 0
	for _, s := range sides {
		if !i.trusted(s.file) {
			i.skip(CheckObservations, CodeNotAuthenticated, s.file+" is not the signed one", s.file)
			return
		}
		seen, ok := i.readSide(s)
		if !ok || !i.compareSide(s, seen, key) {
			return
		}
		total += len(seen.all)
	}
	i.pass(CheckObservations, CodeObservationsOK, fmt.Sprintf("%d observations of both sides, nonces and heartbeats recomputed", total), packet.ObservationsDir)
}

// seenSide is the content of one observation file.
type seenSide struct {
	all       []manifest.Observation
	times     []time.Time       // of all
	by        map[string][2]int // by nonce: where those in all begin and end
	sandboxes map[string]bool
}

// of is what was observed under a nonce, nil where there was nothing. Those of one
// nonce are neighbours: they come in order.
func (s seenSide) of(nonce string) []manifest.Observation {
	at, ok := s.by[nonce]
	if !ok {
		return nil
	}
	return s.all[at[0]:at[1]:at[1]]
}

func (i *inspection) readSide(s side) (seenSide, bool) {
	seen := seenSide{by: map[string][2]int{}, sandboxes: map[string]bool{}}
	window, ok := i.window()
	if !ok {
		return seen, false
	}
	expected := 0
	for _, e := range i.derived.Manifest.Techniques {
		expected += len(s.phase(e).Observations)
	}
	expected += expected / 4 // heartbeats, and what nobody owns
	seen.all, seen.times = make([]manifest.Observation, 0, expected), make([]time.Time, 0, expected)
	err := packet.ReadObservations(i.packet, s.file, func(o manifest.Observation) error {
		when, err := manifest.ParseTime(o.Time)
		if err != nil {
			return fmt.Errorf("observation %d: time: %w", len(seen.all), err)
		}
		if when.Before(window[0]) || when.After(window[1]) {
			return fmt.Errorf("%w: observation %d is of %s", errOutsideRun, len(seen.all), o.Time)
		}
		if n := len(seen.all); n > 0 && packet.CompareObservations(seen.all[n-1], o) > 0 {
			return fmt.Errorf("observation %d stands before one that it follows", n)
		}
		seen.times = append(seen.times, when)
		seen.all = append(seen.all, o)
		at, ok := seen.by[o.Nonce]
		if !ok {
			at[0] = len(seen.all) - 1
		}
		seen.by[o.Nonce] = [2]int{at[0], len(seen.all)}
		if o.Sandbox != "" {
			seen.sandboxes[o.Sandbox] = true
		}
		return nil
	})
	if err != nil {
		i.fail(CheckObservations, observationCode(err), err.Error(), s.file)
		return seen, false
	}
	return seen, true
}

// window is the time of the run, with room for clocks that differ.
func (i *inspection) window() ([2]time.Time, bool) {
	m := i.derived.Manifest
	from, err := manifest.ParseTime(m.Run.Started)
	if err == nil {
		var to time.Time
		if to, err = manifest.ParseTime(m.Terminal.Ended); err == nil && !to.Before(from) {
			if to.Sub(from) > maxRun {
				i.fail(CheckObservations, CodeRunLength, fmt.Sprintf("the run is said to have lasted from %s to %s; %s is the most", m.Run.Started, m.Terminal.Ended, maxRun), packet.ManifestFile)
				return [2]time.Time{}, false
			}
			return [2]time.Time{from.Add(-ClockSkew), to.Add(ClockSkew)}, true
		}
	}
	i.fail(CheckObservations, CodeTimeBadForm, fmt.Sprintf("the run's times %.40q and %.40q are malformed or out of order", m.Run.Started, m.Terminal.Ended), packet.ManifestFile)
	return [2]time.Time{}, false
}

// maxRun is the longest time that a run may take: validity counts from its end,
// so that one of months would make old observations new.
const maxRun = 24 * time.Hour

func (i *inspection) compareSide(s side, seen seenSide, key []byte) bool {
	run := i.derived.Manifest.Run.RunID
	known := map[string]bool{"": true} // what the enforcement saw and nobody owns
	beats := map[string]manifest.Heartbeat{}
	for n, e := range i.derived.Manifest.Techniques {
		p := s.phase(e)
		if p.Nonce == "" && e.NotApplicable != "" && len(p.Observations) == 0 {
			continue
		}
		if want := nonce.New(key, run, e.Technique, e.Variant, s.name); p.Nonce != want {
			i.fail(CheckObservations, CodeNonce, fmt.Sprintf("%s: nonce %.40q of the %s does not follow from the nonce key", nameOf(e), p.Nonce, s.name), entryAt(n))
			return false
		}
		known[p.Nonce] = true
		if of := seen.of(p.Nonce); len(of)+len(p.Observations) > 0 && !reflect.DeepEqual(of, p.Observations) {
			i.fail(CheckObservations, CodeObservationsDiffer, fmt.Sprintf("%s: the entry and %s differ", nameOf(e), s.file), entryAt(n))
			return false
		}
		if !i.placed(s, n, e) || !i.heartbeat(s, seen, key, n, e, beats) {
			return false
		}
	}
	unclaimed := map[string]bool{"": true}
	for sandbox := range seen.sandboxes {
		for _, position := range []string{judge.Before, judge.Between, judge.After} {
			n := judge.HeartbeatNonce(key, run, sandbox, position, s.name)
			known[n], unclaimed[n] = true, true
		}
		if !i.beatsInOrder(s, seen, key, sandbox) {
			return false
		}
	}
	for n, o := range seen.all {
		if !known[o.Nonce] {
			i.fail(CheckObservations, CodeObservationsStray, fmt.Sprintf("observation %d carries nonce %.40q, which is of no technique of the %s", n, o.Nonce, s.name), fmt.Sprintf("%s:%d", s.file, n+1))
			return false
		}
		if s.name == nonce.PhaseAttack && unclaimed[o.Nonce] {
			i.unclaimed(o, fmt.Sprintf("%s:%d", s.file, n+1))
		}
	}
	return true
}

// heartbeat recomputes the heartbeats of an entry's sandbox. beats keeps what
// was computed, a sandbox at a time.
func (i *inspection) heartbeat(s side, seen seenSide, key []byte, n int, e manifest.Technique, beats map[string]manifest.Heartbeat) bool {
	p := s.phase(e)
	if p.Sandbox == "" {
		if p.Heartbeat != (manifest.Heartbeat{}) {
			i.fail(CheckObservations, CodeHeartbeat, nameOf(e)+": a heartbeat without a sandbox", entryAt(n))
			return false
		}
		return true
	}
	want, ok := beats[p.Sandbox]
	if !ok {
		want = judge.Heartbeats(seen.all, key, i.derived.Manifest.Run.RunID, p.Sandbox, s.name, i.closed())
		beats[p.Sandbox] = want
	}
	if p.Heartbeat != want {
		i.fail(CheckObservations, CodeHeartbeat, fmt.Sprintf("%s: the heartbeat of sandbox %.60q in the %s does not follow from the observations", nameOf(e), p.Sandbox, s.name), entryAt(n))
		return false
	}
	return true
}

// closed reports whether the packet's policy leaves no host to reach. A policy
// that cannot be read is a fault of its own.
func (i *inspection) closed() bool { return i.rules != nil && i.rules.formErr == nil && i.rules.closed }
