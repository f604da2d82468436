package boundary

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	for _, m := range []Mode{Enforced, Open} {
		run := fmt.Sprintf("%08x", rand.Uint32())
		t0 := time.Now()
		s, err := Build(t.Context(), Config{Run: run, Phase: "a", Boxes: []string{"a", "b"}, Mode: m, Uplink: World, ProxyUID: 64999})
		t.Log(m, "build", time.Since(t0), err)
		if err != nil {
			t.Fatal(err)
		}
		t0 = time.Now()
		v, err := s.VerifyInPlace(t.Context())
		t.Log("verify", time.Since(t0), v, err)
		c, _ := s.Counters()
		for k, v := range c {
			if v.Packets > 0 {
				t.Log(k, v)
			}
		}
		t.Log(s.DenialStats())
		t0 = time.Now()
		t.Log(s.FilterState())
		t.Log("state", time.Since(t0))
		t0 = time.Now()
		t.Log("close", s.Close(), time.Since(t0))
	}
}
