package lat

import (
	"context"
	"net/netip"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// inside4 and inside6 are addresses of every range that is not the public
// internet (the IANA registries of special-purpose addresses), several of the
// large ones.
var (
	inside4 = []string{"10.0.0.1", "10.255.255.254", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.254", "100.64.0.1", "100.127.255.254",
		"169.254.1.1", "169.254.255.254", "198.18.0.1", "198.19.255.254", "192.0.0.8", "192.0.2.77", "198.51.100.77", "203.0.113.77", "192.88.99.1",
		"240.0.0.1", "224.0.0.251", "0.1.2.3"}
	inside6 = []string{"fc00::1", "fd12:3456:789a::1", "fdff:ffff::1", "fe80::77", "febf::1", "fec0::1", "64:ff9b:1::1", "2001:db8:77::1", "3fff::1",
		"2001:2::1", "100::1", "5f00::1"}
)

// everyRange asks for a name that leads to an address of each range in turn.
func everyRange(ctx context.Context, env *probes.Env) manifest.Observation {
	list := inside4
	if _, v6 := kit.WayOf(env.Variant); v6 {
		list = inside6
	}
	var names []string
	for _, address := range list {
		names = append(names, kit.NameFor(env.Nonce, env.Facts.Names.Private, netip.MustParseAddr(address)))
	}
	_, v6 := kit.WayOf(env.Variant)
	for _, p := range env.Facts.Opened {
		if p.Addr().Is6() == v6 {
			names = append(names, kit.NameFor(env.Nonce, env.Facts.Names.Private, kit.Inside(env, p)))
		}
	}
	return fetchBoth(ctx, env, names)
}

// everyLiteral asks for the addresses themselves.
func everyLiteral(ctx context.Context, env *probes.Env) manifest.Observation {
	list := inside4
	if _, v6 := kit.WayOf(env.Variant); v6 {
		list = inside6
	}
	_, v6 := kit.WayOf(env.Variant)
	return kit.Opened(ctx, env, everywhere[v6], fetchBoth(ctx, env, list))
}

// everywhere is all addresses of a family.
var everywhere = map[bool]netip.Prefix{false: netip.MustParsePrefix("0.0.0.0/0"), true: netip.MustParsePrefix("::/0")}

// embeddedName asks for names that lead to IPv6 addresses in which a private
// address is hidden.
func embeddedName(ctx context.Context, env *probes.Env) manifest.Observation {
	var names []string
	for _, a := range kit.Embeddings(own(env, "10.0.0.1")) {
		names = append(names, kit.NameFor(env.Nonce, env.Facts.Names.Private, a))
	}
	return fetchBoth(ctx, env, names)
}
