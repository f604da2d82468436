package probes

import (
	"net/netip"

	"github.com/wallproof/wallproof/probes/nonce"
)

// ownPrefixes are the special ranges in which an attempt has a destination of
// its own.
var ownPrefixes = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/11"), // the half of 100.64.0.0/10 without metadata services
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("169.254.32.0/19"), // link-local without metadata services
	netip.MustParsePrefix("fd80::/9"),        // unique local without metadata services
	netip.MustParsePrefix("fe80::/64"),
	netip.MustParsePrefix("239.192.0.0/14"), // RFC 2365 organization-local scope
	netip.MustParsePrefix("ff05::/112"),
}

// OwnPrefix returns the one of the special ranges that holds an address of
// prefix, which attempts take their own destination from. It panics when there
// is none: it is for constants.
func OwnPrefix(inside string) netip.Prefix {
	at := netip.MustParseAddr(inside)
	for _, p := range ownPrefixes {
		if p.Contains(at) {
			return p
		}
	}
	panic("probes: no own prefix holds " + inside)
}

// OwnAddrs returns every destination that belongs to the attempt with this
// nonce and to no other: whatever arrives there is its doing.
func OwnAddrs(n string, f *Facts) []netip.Addr {
	out := make([]netip.Addr, 0, len(ownPrefixes)+2)
	for _, p := range []netip.Prefix{f.Outside.V4, f.Outside.V6} {
		if p.IsValid() {
			out = append(out, nonce.AddrFor(n, p))
		}
	}
	for _, p := range ownPrefixes {
		out = append(out, nonce.AddrFor(n, p))
	}
	return out
}
