package packettest

import (
	"testing"

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
