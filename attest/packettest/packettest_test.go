package packettest

import (
	"testing"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/verify"
)

func TestDefaultIsValid(t *testing.T) {
	p := New(t)
	r := verify.Verify(p.Input())
	if r.Verdict != verify.Valid {
		for _, c := range r.Failed() {
			t.Errorf("%s %s %s: %s", c.Name, c.Status, c.Code, c.Message)
		}
	}
}

// The policy of test packets is one that the policy package itself would write.
func TestPolicyIsCanonical(t *testing.T) {
	p, err := policy.ParseCanonical([]byte(Policy))
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Canonical()
	if err != nil || string(again) != Policy {
		t.Errorf("written again: %s, %v", again, err)
	}
}
