package judge

import (
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/nonce"
)

// heartbeatTechnique stands before the sandbox's name in the derivation of a
// heartbeat's nonce; it is no technique of the catalogue.
const heartbeatTechnique = "HB@"

// Positions of heartbeats in a sandbox's run.
const (
	Before  = "before"
	Between = "between"
	After   = "after"
)

// HeartbeatNonce derives the nonce of one heartbeat. phase is
// nonce.PhaseControl or nonce.PhaseAttack.
func HeartbeatNonce(key []byte, run, sandbox, position, phase string) string {
	return nonce.New(key, run, heartbeatTechnique+sandbox, position, phase)
}

// Heartbeats tells from a phase's observations whether a sandbox's network lived.
// At each position the probe must have read the witness's proof, and a witness
// must have seen the nonce arrive.
//
// closed is for a policy under which there is no allowed path. The heartbeat is
// then a connection to an address of the internet. In the control it must arrive
// like any other. In the attack the probe must have been refused at once, the
// packet filter or the proxy must have recorded the refusal of this very attempt
// from this very sandbox, and no witness may have seen it: so the network carried
// it as far as the wall, and the wall answered. A dead network does neither.
func Heartbeats(all []manifest.Observation, key []byte, run, sandbox, phase string, closed bool) manifest.Heartbeat {
	closed = closed && phase == nonce.PhaseAttack
	h := manifest.Heartbeat{Refused: closed}
	for _, at := range []struct {
		position string
		lived    *bool
	}{{Before, &h.Before}, {Between, &h.Between}, {After, &h.After}} {
		n := HeartbeatNonce(key, run, sandbox, at.position, phase)
		b := beatOf(all, n, nonce.Proof(key, n), sandbox)
		if closed {
			*at.lived = b.refused && b.recorded && !b.arrived
		} else {
			*at.lived = b.reached && b.arrived
		}
	}
	return h
}

// beat is what was seen of one heartbeat: by the probe (reached, refused), by a
// witness (arrived), by the enforcement (recorded).
type beat struct{ reached, refused, arrived, recorded bool }

func beatOf(all []manifest.Observation, n, proof, sandbox string) beat {
	var b beat
	for _, o := range all {
		if o.Nonce != n {
			continue
		}
		switch o.Side {
		case manifest.SideProbe:
			b.reached = b.reached || (o.Sign == manifest.SignReached && o.Proof == proof)
			b.refused = b.refused || o.Sign == manifest.SignRefused
		case manifest.SideWitness:
			b.arrived = true
		case manifest.SideProxy, manifest.SideFilter:
			b.recorded = b.recorded || (o.Verdict == VerdictDeny && o.Sandbox == sandbox)
		}
	}
	return b
}
