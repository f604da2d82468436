// Package addr is the address plan of the world outside a sandbox. It is pure.
//
// Every address answers in the world, so an address is free to carry meaning. A
// host name has one IPv4 and one IPv6 address of its own, derived from the name;
// the world's DNS gives them and no other name has them. That is how a request
// that really went to an allowed host is told from one that only carries its
// name. They lie in blocks that are globally routable in whole, in no
// special-purpose registry (RFC 6890 and its successors), so that a policy's
// second gate lets them pass as it would a real host's.
//
// Package addr also classifies addresses. It does so on its own, sharing no code
// with the policy, so that a gap in the classifier that enforces is not repeated
// in the one that watches.
package addr

import (
	"crypto/sha256"
	"net/netip"
	"strings"
)

// hostOctets are the first octets of the IPv4 addresses of hosts. No
// special-purpose block lies in any of them.
var hostOctets = [...]byte{23, 34, 45, 52, 64, 76, 81, 93}

// hostPrefix6 is the first two octets of the IPv6 addresses of hosts.
var hostPrefix6 = [2]byte{0x26, 0x00}

// Host4 returns the IPv4 address that the world's DNS gives for a host name. The
// letter case and one trailing dot of the name don't matter.
func Host4(name string) netip.Addr {
	sum := hostSum(name)
	last := sum[3]
	if last == 0 || last == 255 {
		last = 1
	}
	return netip.AddrFrom4([4]byte{hostOctets[sum[0]%8], sum[1], sum[2], last})
}

// Host6 returns the IPv6 address that the world's DNS gives for a host name.
func Host6(name string) netip.Addr {
	sum := hostSum(name)
	var a [16]byte
	copy(a[:], hostPrefix6[:])
	copy(a[2:], sum[4:18])
	a[8] |= 4 // keeps the interface identifier from looking like ISATAP's
	a[15] |= 1
	return netip.AddrFrom16(a)
}

func hostSum(name string) [32]byte {
	return sha256.Sum256([]byte("wallproof.host/v1\x00" + strings.ToLower(strings.TrimSuffix(name, "."))))
}
