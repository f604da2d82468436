package verify_test

import (
	"testing"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

func BenchmarkVerify(b *testing.B) {
	p := packettest.New(b)
	in := p.Input()
	alone := p.Input()
	bundleAlone(&alone)
	b.Run("packet", func(b *testing.B) {
		for b.Loop() {
			if r := verify.Verify(in); r.Verdict != verify.Valid {
				b.Fatal(explain(r))
			}
		}
	})
	b.Run("bundle", func(b *testing.B) {
		for b.Loop() {
			if r := verify.Verify(alone); r.Verdict != verify.Valid {
				b.Fatal(explain(r))
			}
		}
	})
}
