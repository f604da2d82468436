package verify

import (
	"fmt"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/parts"
)

// wiring checks that one policy and one routing were in force for every sandbox,
// from the first to the last byte.
func (i *inspection) wiring() {
	m := i.derived.Manifest
	if fault := wiredFault(m.Run); fault != "" {
		i.fail(CheckEnforcement, CodeWiring, fault, packet.ManifestFile+":1")
	}
	if n, fault := unwired(m.Run, m.Techniques); fault != "" {
		i.fail(CheckEnforcement, CodeWiring, fault, entryAt(n))
	}
	last := fmt.Sprintf("%s:%d", packet.ManifestFile, m.Summary.Count)
	if fault := haltFault(m.Terminal.Halts); fault != "" {
		i.fail(CheckEnforcement, CodeWiring, fault, last)
	}
	if len(m.Terminal.Edits) == 0 {
		return
	}
	to := "to what is no policy"
	if e := m.Terminal.Edits[0]; e.PolicyDigest != "" {
		to = "to " + e.PolicyDigest
	}
	i.fail(CheckEnforcement, CodePolicyEdited, fmt.Sprintf("the policy's file was edited %d times during the run, first at %.40s %.90s: run the battery again under one policy",
		len(m.Terminal.Edits), m.Terminal.Edits[0].Time, to), last)
}

// wiredFault says what is wrong with what the sandboxes were wired with, or "".
func wiredFault(r manifest.Run) string {
	seen := map[string]bool{}
	for _, w := range r.Sandboxes {
		want := r.Driver.Isolation[parts.FactRouting]
		switch {
		case seen[w.Sandbox]:
			return fmt.Sprintf("the sandbox %.60q is listed twice", w.Sandbox)
		case predicate.CheckDigest(w.PolicyDigest) != nil || w.PolicyDigest != r.PolicyDigest:
			return fmt.Sprintf("the sandbox %.60q was wired with policy %.90q, the run is under %s", w.Sandbox, w.PolicyDigest, r.PolicyDigest)
		case w.Routing != manifest.RoutingNone && w.Routing != want:
			return fmt.Sprintf("the sandbox %.60q was wired %.40q, the run %.40q", w.Sandbox, w.Routing, want)
		}
		seen[w.Sandbox] = true
	}
	return ""
}

// unwired finds an entry whose attack ran in a sandbox of which nothing says what it
// was wired with.
func unwired(r manifest.Run, entries []manifest.Technique) (n int, fault string) {
	for n, e := range entries {
		listed := func(w manifest.Wired) bool { return w.Sandbox == e.Attack.Sandbox }
		if e.NotApplicable == "" && e.Attack.Sandbox != "" && !slices.ContainsFunc(r.Sandboxes, listed) {
			return n, fmt.Sprintf("%s: nothing says what policy and routing the sandbox %.60q was wired with", nameOf(e), e.Attack.Sandbox)
		}
	}
	return 0, ""
}

// haltFault says what is wrong with the halts of a run, or "".
func haltFault(halts []manifest.Halt) string {
	before, halted := "", false
	for n, h := range halts {
		if _, err := manifest.ParseTime(h.Time); err != nil || h.Time < before || h.Halted == halted {
			return fmt.Sprintf("halt %d at %.40q is malformed or out of order", n+1, h.Time)
		}
		before, halted = h.Time, h.Halted
	}
	return ""
}
