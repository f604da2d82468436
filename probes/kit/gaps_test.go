package kit

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/wallproof/wallproof/probes"
)

// A wide range is tried at an address of the internet, a special one where it is.
func TestInside(t *testing.T) {
	for _, tt := range []struct {
		prefix   string
		ordinary bool
	}{
		{"0.0.0.0/0", true}, {"0.0.0.0/1", true}, {"128.0.0.0/1", true}, {"::/0", true}, {"8.8.8.0/24", true}, {"2000::/3", true},
		{"10.0.0.0/8", false}, {"127.0.0.0/8", false}, {"240.0.0.0/4", false}, {"fc00::/7", false},
	} {
		p := netip.MustParsePrefix(tt.prefix)
		for i := range 2000 {
			env := &probes.Env{}
			env.Nonce = fmt.Sprintf("nonce%d", i)
			a := Inside(env, p)
			if !p.Contains(a) || ordinary(a) != tt.ordinary {
				t.Fatalf("%s in %s", a, p)
			}
			if again := Inside(env, p); again != a {
				t.Fatalf("%s, then %s in %s", a, again, p)
			}
		}
	}
	if a := Inside(&probes.Env{}, netip.MustParsePrefix("192.0.2.9/32")); a.String() != "192.0.2.9" {
		t.Errorf("%s of a single address", a)
	}
}
