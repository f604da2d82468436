package site

import (
	"cmp"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// noteRemoved records the attestations that the site had and whose packets are not
// handed over any more: a claim that was made and is gone is a change of state.
//
// What is in force is compared with those that are away, as far as the history knows
// them: image and policy, not the fabric. A drift that is seen holds them when they
// come back, so that to take a packet away for a while is no way around the latch.
func (b *builder) noteRemoved() {
	present := map[string]bool{}
	for _, r := range b.records {
		present[r.Digest] = true
	}
	b.removed = b.history.Remove(func(digest string) bool { return present[digest] }, b.now)
	var live predicate.Live
	if b.in.Live != nil {
		var err error
		if live, err = predicate.ParseLive(b.in.Live); err != nil {
			live = predicate.Live{} // the verifier says so of each packet that is there
		}
	}
	policy := cmp.Or(b.in.Verify.PolicyDigest, live.Policy)
	for _, digest := range b.history.Absent() {
		if e := b.history.Attestations[digest]; e.Name == b.primary { // live.json is about that image
			b.latchIf(digest, e, verify.CodeImageDrift, live.Image, e.Subject)
			b.latchIf(digest, e, verify.CodePolicyDrift, policy, e.Policy)
		}
	}
}

// latchIf holds an attestation that is away where what is in force is not what was
// attested. What either side does not say is not compared.
func (b *builder) latchIf(digest string, e *history.Entry, code verify.Code, inForce, attested string) {
	if inForce != "" && attested != "" && inForce != attested {
		b.history.Latch(digest, e.Run, string(code), b.now)
	}
}
