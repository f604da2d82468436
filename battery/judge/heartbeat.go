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

// Heartbeats tells from a phase's observations whether a sandbox's allowed path
// lived: at each position the probe must have read the witness's proof, and a
// witness must have seen the nonce arrive.
func Heartbeats(all []manifest.Observation, key []byte, run, sandbox, phase string) manifest.Heartbeat {
	lived := func(position string) bool {
		n := HeartbeatNonce(key, run, sandbox, position, phase)
		proof := nonce.Proof(key, n)
		var inside, outside bool
		for _, o := range all {
			if o.Nonce != n {
				continue
			}
			inside = inside || (o.Side == manifest.SideProbe && o.Sign == manifest.SignReached && o.Proof == proof)
			outside = outside || o.Side == manifest.SideWitness
		}
		return inside && outside
	}
	return manifest.Heartbeat{Before: lived(Before), Between: lived(Between), After: lived(After)}
}
