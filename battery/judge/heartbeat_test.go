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
	got := Heartbeats(all, key, "r", "work", nonce.PhaseAttack, false)
	want := manifest.Heartbeat{Before: true, Between: false, After: false}
	if got != want {
		t.Errorf("got %+v, want %+v: a wrong proof and an unseen arrival are no heartbeat", got, want)
	}
	if h := Heartbeats(all, key, "r", "agent", nonce.PhaseAttack, false); h != (manifest.Heartbeat{}) {
		t.Errorf("another sandbox's heartbeats count: %+v", h)
	}
	if h := Heartbeats(all, key, "r", "work", nonce.PhaseControl, false); h != (manifest.Heartbeat{}) {
		t.Errorf("another phase's heartbeats count: %+v", h)
	}
}

// TestHeartbeatsClosed: where nothing is allowed, a wall that answers is what
// lives. Each row leaves one of the three signs out, or adds one that forbids it.
func TestHeartbeatsClosed(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	probe := manifest.Observation{Side: manifest.SideProbe, Sign: manifest.SignRefused}
	filter := manifest.Observation{Side: manifest.SideFilter, Verdict: VerdictDeny, Sandbox: "work"}
	with := func(o manifest.Observation, change func(*manifest.Observation)) manifest.Observation {
		change(&o)
		return o
	}
	tests := []struct {
		name string
		obs  []manifest.Observation
		want bool
	}{
		{"refused and recorded", []manifest.Observation{probe, filter}, true},
		{"recorded by the proxy", []manifest.Observation{probe, with(filter, func(o *manifest.Observation) { o.Side = manifest.SideProxy })}, true},
		{"nothing recorded", []manifest.Observation{probe}, false},
		{"nothing told", []manifest.Observation{filter}, false},
		{"a timeout", []manifest.Observation{with(probe, func(o *manifest.Observation) { o.Sign = manifest.SignTimeout }), filter}, false},
		{"recorded for another sandbox", []manifest.Observation{probe, with(filter, func(o *manifest.Observation) { o.Sandbox = "tenant" })}, false},
		{"a failure, not a denial", []manifest.Observation{probe, with(filter, func(o *manifest.Observation) { o.Verdict = "failed" })}, false},
		{"it arrived", []manifest.Observation{probe, filter, {Side: manifest.SideWitness}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []manifest.Observation
			for _, position := range []string{Before, Between, After} {
				for _, o := range tt.obs {
					o.Nonce = HeartbeatNonce(key, "r", "work", position, nonce.PhaseAttack)
					all = append(all, o)
				}
			}
			if h := Heartbeats(all, key, "r", "work", nonce.PhaseAttack, true); h.Alive() != tt.want || !h.Refused {
				t.Errorf("got %+v, want alive: %v", h, tt.want)
			}
			if h := Heartbeats(all, key, "r", "work", nonce.PhaseAttack, false); h.Alive() {
				t.Error("a refusal counts as life where there is an allowed path")
			}
		})
	}
	var control []manifest.Observation
	for _, position := range []string{Before, Between, After} {
		n := HeartbeatNonce(key, "r", "work", position, nonce.PhaseControl)
		control = append(control, manifest.Observation{Nonce: n, Side: manifest.SideProbe, Sign: manifest.SignReached, Proof: nonce.Proof(key, n)}, manifest.Observation{Nonce: n, Side: manifest.SideWitness})
	}
	if h := Heartbeats(control, key, "r", "work", nonce.PhaseControl, true); !h.Alive() || h.Refused {
		t.Errorf("the control's must arrive: %+v", h)
	}
}
