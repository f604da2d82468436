package verify

import (
	"crypto/sha256"
	"sync"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/policy"
)

// reading is what a packet's policy was found to be. It depends on the policy's
// bytes alone, and it is not changed once it was made.
type reading struct {
	policy    predicate.Policy
	closed    bool // leaves no host to reach
	formErr   error
	evaluator int64 // the version that it was written for, where that is newer than ours; else 0
	parts     *parts.Parts
	nothing   bool // has nothing to enforce
	ruleErr   error
}

func readPolicy(data []byte) *reading {
	r := &reading{}
	if r.policy, r.formErr = packet.ReadPolicy(data); r.formErr != nil {
		return r
	}
	if r.closed, r.formErr = packet.Closed(data); r.formErr != nil {
		return r
	}
	if v := evaluatorOf(data); v > policy.EvaluatorVersion {
		r.evaluator = v
		return r
	}
	p, err := policy.ParseCanonical(data)
	if err != nil {
		r.ruleErr = err
		return r
	}
	e, err := policy.Compile(p)
	if err != nil {
		r.ruleErr = err
		return r
	}
	t := parts.Of(e, p)
	r.parts, r.nothing = &t, e.NothingToEnforce()
	return r
}

// policies remembers policies by their bytes: many packets are under the same one.
type policies struct {
	mu   sync.Mutex
	read map[[sha256.Size]byte]*reading
}

// maxPolicies bounds how many policies are remembered at a time.
const maxPolicies = 64

func (p *policies) of(data []byte) *reading {
	sum := sha256.Sum256(data)
	p.mu.Lock()
	r := p.read[sum]
	p.mu.Unlock()
	if r != nil {
		return r
	}
	r = readPolicy(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read == nil || len(p.read) >= maxPolicies {
		p.read = map[[sha256.Size]byte]*reading{}
	}
	p.read[sum] = r
	return r
}
