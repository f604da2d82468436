package verify_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// A verifier that is kept says of each packet what a new one says, whatever it
// verified before and beside.
func TestVerifierIsKept(t *testing.T) {
	list := small()
	v := newVirtual(t)
	for _, root := range [][]byte{nil, v.trustedRoot(t), []byte(`{}`)} {
		kept := verify.NewVerifier(root, "", list)
		var wg sync.WaitGroup
		for _, o := range [][]packettest.Option{
			nil, {packettest.Escape(list[0].ID)}, {packettest.WithoutRerun()}, {packettest.RedTeamTarget(packettest.OtherDigest)},
		} {
			in := packettest.New(t, append(o, packettest.Catalogue(list))...).Input()
			in.TrustedRoot = root
			want := reportText(t, verify.Verify(in))
			for range 4 {
				wg.Go(func() {
					in := in
					in.TrustedRoot, in.Catalogue = []byte("not looked at"), nil
					if got := reportText(t, kept.Verify(in)); got != want {
						t.Errorf("a kept verifier says\n%s\na new one\n%s", got, want)
					}
				})
			}
		}
		wg.Wait()
	}
}

func reportText(t *testing.T, r verify.Report) string {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Error(err)
	}
	return string(data)
}
