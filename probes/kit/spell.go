package kit

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// Spellings returns an IPv4 address in the forms that inet_aton takes and a list
// of dotted addresses does not: decimal, hexadecimal, octal, shortened, mixed,
// and padded.
func Spellings(address string) []string {
	a := netip.MustParseAddr(address).As4()
	n := binary.BigEndian.Uint32(a[:])
	low := uint32(a[2])<<8 | uint32(a[3])
	return []string{
		fmt.Sprintf("%d", n),
		fmt.Sprintf("0x%x", n),
		fmt.Sprintf("0%o", n),
		fmt.Sprintf("0%o.0%o.0%o.0%o", a[0], a[1], a[2], a[3]),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", a[0], a[1], a[2], a[3]),
		fmt.Sprintf("%d.%d.%d", a[0], a[1], low),
		fmt.Sprintf("%d.%d", a[0], n&0xffffff),
		fmt.Sprintf("0x%x.%d.0%o.%d", a[0], a[1], a[2], a[3]),
		address + ".",
	}
}

// Routable returns those of the forms of an IPv4 address inside an IPv6 one that
// a packet can be addressed to: IPv4-compatible addresses are not, by most
// kernels, so that a socket to one waits in vain for either answer.
func Routable(forms []string) []string {
	var out []string
	for _, f := range forms {
		a, err := netip.ParseAddr(strings.Trim(f, "[]"))
		if b := a.As16(); err == nil && [12]byte(b[:12]) != [12]byte{} {
			out = append(out, f)
		}
	}
	return out
}

// Mapped returns an IPv4 address as IPv4-mapped and IPv4-compatible IPv6
// addresses (RFC 4291 section 2.5.5), dotted and in hexadecimal.
func Mapped(address string) []string {
	a := netip.MustParseAddr(address).As4()
	hi, lo := binary.BigEndian.Uint16(a[:2]), binary.BigEndian.Uint16(a[2:])
	return []string{
		"[::ffff:" + address + "]",
		fmt.Sprintf("[::ffff:%x:%x]", hi, lo),
		"[::" + address + "]",
		fmt.Sprintf("[::%x:%x]", hi, lo),
		"[::ffff:0:" + address + "]",
	}
}

// Translated returns an IPv4 address inside the prefixes that gateways translate
// from: NAT64 well-known and local-use (RFC 6052, RFC 8215), 6to4 (RFC 3056),
// Teredo (RFC 4380) and ISATAP (RFC 5214).
func Translated(address string) []string {
	a := netip.MustParseAddr(address).As4()
	hi, lo := binary.BigEndian.Uint16(a[:2]), binary.BigEndian.Uint16(a[2:])
	return []string{
		fmt.Sprintf("[64:ff9b::%x:%x]", hi, lo),
		fmt.Sprintf("[64:ff9b:1::%x:%x]", hi, lo),
		fmt.Sprintf("[2002:%x:%x::]", hi, lo),
		fmt.Sprintf("[2001:0:4136:e378:8000:63bf:%x:%x]", ^hi, ^lo),
		fmt.Sprintf("[2001:470:1:1:0:5efe:%x:%x]", hi, lo),
	}
}

// Bracket puts an IPv6 address in brackets, as URLs want it.
func Bracket(address string) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		return "[" + address + "]"
	}
	return address
}
