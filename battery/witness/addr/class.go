package addr

import (
	"encoding/binary"
	"net/netip"
)

// Class says what kind of place an address is.
type Class string

// The classes.
const (
	Public        Class = "public"
	Metadata      Class = "metadata" // a cloud's metadata or credential service
	Loopback      Class = "loopback"
	LinkLocal     Class = "link-local"
	Private       Class = "private" // RFC 1918, RFC 4193
	CGNAT         Class = "cgnat"   // RFC 6598
	Multicast     Class = "multicast"
	Broadcast     Class = "broadcast"
	Documentation Class = "documentation"
	Benchmark     Class = "benchmark" // RFC 2544, RFC 5180
	Unspecified   Class = "unspecified"
	Reserved      Class = "reserved" // the rest of the special-purpose registries
)

// metadata lists the addresses of cloud metadata and credential services, each
// with the vendor's documentation as its source.
var metadata = map[netip.Addr]string{
	netip.MustParseAddr("169.254.169.254"):  "shared",             // AWS, GCP, Azure, OpenStack, Oracle, DigitalOcean and others
	netip.MustParseAddr("169.254.170.2"):    "aws-ecs",            // ECS task credentials
	netip.MustParseAddr("169.254.170.23"):   "aws-eks",            // EKS pod identity
	netip.MustParseAddr("fd00:ec2::254"):    "aws",                // EC2 over IPv6
	netip.MustParseAddr("fd00:ec2::23"):     "aws-eks",            // EKS pod identity over IPv6
	netip.MustParseAddr("fd20:ce::254"):     "gcp",                // GCP over IPv6
	netip.MustParseAddr("fe80::a9fe:a9fe"):  "openstack",          // OpenStack over IPv6
	netip.MustParseAddr("168.63.129.16"):    "azure-wireserver",   // Azure host agent
	netip.MustParseAddr("100.100.100.200"):  "alibaba",            //
	netip.MustParseAddr("100.96.0.96"):      "volcengine",         //
	netip.MustParseAddr("169.254.0.23"):     "tencent",            //
	netip.MustParseAddr("192.0.0.192"):      "oracle-classic",     //
	netip.MustParseAddr("fd00:c1::a9fe:a9"): "oracle",             // Oracle over IPv6
	netip.MustParseAddr("169.254.169.253"):  "aws-dns",            // VPC resolver
	netip.MustParseAddr("fd00:ec2::253"):    "aws-dns",            //
	netip.MustParseAddr("169.254.42.42"):    "scaleway",           //
	netip.MustParseAddr("fd00:42::42"):      "scaleway",           //
	netip.MustParseAddr("169.254.169.123"):  "aws-time",           //
	netip.MustParseAddr("169.254.169.250"):  "rancher",            //
	netip.MustParseAddr("192.0.0.170"):      "nat64-discovery",    // RFC 7050, answers only inside a cloud
	netip.MustParseAddr("192.0.0.171"):      "nat64-discovery",    //
	netip.MustParseAddr("169.254.170.3"):    "aws-ecs-task-state", //
}

// special is the special-purpose registries, most specific first where one
// block lies in another.
var special = []struct {
	prefix netip.Prefix
	class  Class
}{
	{netip.MustParsePrefix("0.0.0.0/32"), Unspecified},
	{netip.MustParsePrefix("0.0.0.0/8"), Reserved},
	{netip.MustParsePrefix("10.0.0.0/8"), Private},
	{netip.MustParsePrefix("100.64.0.0/10"), CGNAT},
	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},
	{netip.MustParsePrefix("192.0.2.0/24"), Documentation},
	{netip.MustParsePrefix("192.0.0.0/24"), Reserved},
	{netip.MustParsePrefix("192.88.99.0/24"), Reserved},
	{netip.MustParsePrefix("192.168.0.0/16"), Private},
	{netip.MustParsePrefix("198.18.0.0/15"), Benchmark},
	{netip.MustParsePrefix("198.51.100.0/24"), Documentation},
	{netip.MustParsePrefix("203.0.113.0/24"), Documentation},
	{netip.MustParsePrefix("224.0.0.0/4"), Multicast},
	{netip.MustParsePrefix("255.255.255.255/32"), Broadcast},
	{netip.MustParsePrefix("240.0.0.0/4"), Reserved},
	{netip.MustParsePrefix("::/128"), Unspecified},
	{netip.MustParsePrefix("::1/128"), Loopback},
	{netip.MustParsePrefix("100::/64"), Reserved},
	{netip.MustParsePrefix("2001:2::/48"), Benchmark},
	{netip.MustParsePrefix("2001:db8::/32"), Documentation},
	{netip.MustParsePrefix("3fff::/20"), Documentation},
	{netip.MustParsePrefix("2001::/23"), Reserved},
	{netip.MustParsePrefix("5f00::/16"), Reserved},
	{netip.MustParsePrefix("fc00::/7"), Private},
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},
	{netip.MustParsePrefix("fec0::/10"), Private},
	{netip.MustParsePrefix("ff00::/8"), Multicast},
}

// Classify returns the class of an address. An IPv6 address that embeds an IPv4
// address (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) has the
// class of the embedded one where that is special.
func Classify(a netip.Addr) Class {
	a = a.WithZone("").Unmap()
	if _, ok := metadata[a]; ok {
		return Metadata
	}
	if a.Is6() {
		if v4, ok := embedded(a); ok {
			if c := Classify(v4); c != Public {
				return c
			}
		}
	}
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.class
		}
	}
	return Public
}

// Cloud names the metadata service that an address belongs to, "" for none.
func Cloud(a netip.Addr) string {
	a = a.WithZone("").Unmap()
	if name, ok := metadata[a]; ok {
		return name
	}
	if a.Is6() {
		if v4, ok := embedded(a); ok {
			return metadata[v4]
		}
	}
	return ""
}

var (
	nat64    = netip.MustParsePrefix("64:ff9b::/96")
	nat64Any = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFor = netip.MustParsePrefix("2002::/16")
	teredo   = netip.MustParsePrefix("2001::/32")
	translat = netip.MustParsePrefix("::ffff:0:0:0/96")
)

// embedded returns the IPv4 address that an IPv6 address carries.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:16]))
	switch {
	case nat64.Contains(a), nat64Any.Contains(a), translat.Contains(a):
		return last, true
	case sixToFor.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a): // RFC 4380: the client's address is stored inverted
		v := binary.BigEndian.Uint32(b[12:16]) ^ 0xffffffff
		return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
	case allZero(b[:12]) && binary.BigEndian.Uint32(b[12:16]) > 1: // compatible, RFC 4291
		return last, true
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214
		return last, true
	}
	return netip.Addr{}, false
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
