package judge

import (
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/nonce"
)

func TestHeartbeats(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	at := func(position string, side, proof string) manifest.Observation {
		n := HeartbeatNonce(key, "r", "work", position, nonce.PhaseAttack)
		o := manifest.Observation{Side: side, Nonce: n}
		if side == manifest.SideProbe {
			o.Sign, o.Proof = manifest.SignReached, proof
			if proof == "" {
				o.Proof = nonce.Proof(key, n)
			}
		}
		return o
	}
	all := []manifest.Observation{
		at(Before, manifest.SideProbe, ""), at(Before, manifest.SideWitness, ""),
		at(Between, manifest.SideProbe, "wrong"), at(Between, manifest.SideWitness, ""),
		at(After, manifest.SideProbe, ""),
	}
	got := Heartbeats(all, key, "r", "work", nonce.PhaseAttack)
	want := manifest.Heartbeat{Before: true, Between: false, After: false}
	if got != want {
		t.Errorf("got %+v, want %+v: a wrong proof and an unseen arrival are no heartbeat", got, want)
	}
	if h := Heartbeats(all, key, "r", "agent", nonce.PhaseAttack); h != (manifest.Heartbeat{}) {
		t.Errorf("another sandbox's heartbeats count: %+v", h)
	}
	if h := Heartbeats(all, key, "r", "work", nonce.PhaseControl); h != (manifest.Heartbeat{}) {
		t.Errorf("another phase's heartbeats count: %+v", h)
	}
}
