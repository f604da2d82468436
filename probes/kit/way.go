package kit

import (
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/nonce"
)

// Way is how an attempt gets out: the part of a network variant before the dash.
type Way string

// The ways.
const (
	Direct   Way = "direct"
	Absolute Way = "absolute"
	Connect  Way = "connect"
	Socks    Way = "socks"
)

// WayOf takes apart a network variant: "connect-v6" is (Connect, true). Other
// variants are direct and IPv4 unless they end in "-v6".
func WayOf(variant string) (way Way, v6 bool) {
	name, v6 := strings.CutSuffix(variant, "-v6")
	if !v6 {
		name = strings.TrimSuffix(variant, "-v4")
	}
	for _, w := range []Way{Absolute, Connect, Socks} {
		if name == string(w) || strings.HasPrefix(name, string(w)+"-") {
			return w, v6
		}
	}
	return Direct, v6
}

// Of picks the member of a pair for a family.
func Of(p probes.Pair, v6 bool) string {
	if v6 {
		return p.V6
	}
	return p.V4
}

// Outside returns the attempt's own address of the open internet.
func Outside(env *probes.Env) netip.Addr {
	_, v6 := WayOf(env.Variant)
	return OutsideFamily(env, v6)
}

// OutsideFamily is Outside for a family of the caller's choice.
func OutsideFamily(env *probes.Env, v6 bool) netip.Addr {
	if v6 {
		return nonce.AddrFor(env.Nonce, env.Facts.Outside.V6)
	}
	return nonce.AddrFor(env.Nonce, env.Facts.Outside.V4)
}

// OutsideName returns the attempt's own name below the attacker's domain.
func OutsideName(env *probes.Env) string { return env.Nonce + "." + env.Facts.Outside.Suffix }
