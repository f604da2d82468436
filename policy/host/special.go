package host

import (
	"encoding/binary"
	"net/netip"
)

// special is one range of addresses that is not the public internet.
type special struct {
	prefix netip.Prefix
	class  Class
	note   string

	// base and mask of the range, for a quick comparison; IPv4 lies in the lower
	// half.
	base, mask [2]uint64
}

// special4 and special6 are searched from the top: the first range that
// contains an address is its own. Metadata services come first.
var special4 = table(
	row("169.254.169.254/32", ClassMetadata, "AWS, Google Cloud, Azure, OpenStack and others"),
	row("169.254.170.2/32", ClassMetadata, "AWS ECS task credentials"),
	row("169.254.170.23/32", ClassMetadata, "AWS EKS pod identity"),
	row("169.254.42.42/32", ClassMetadata, "Scaleway"),
	row("169.254.0.23/32", ClassMetadata, "Tencent Cloud"),
	row("100.100.100.200/32", ClassMetadata, "Alibaba Cloud"),
	row("168.63.129.16/32", ClassMetadata, "Azure's host agent"),
	row("192.0.0.192/32", ClassMetadata, "Oracle Cloud"),
	row("255.255.255.255/32", ClassBroadcast, "limited broadcast"),
	row("0.0.0.0/8", ClassUnspecified, "this network"),
	row("10.0.0.0/8", ClassPrivate, "RFC 1918"),
	row("100.64.0.0/10", ClassCGNAT, "RFC 6598"),
	row("127.0.0.0/8", ClassLoopback, "loopback"),
	row("169.254.0.0/16", ClassLinkLocal, "link-local"),
	row("172.16.0.0/12", ClassPrivate, "RFC 1918"),
	row("192.0.0.0/24", ClassReserved, "IETF protocol assignments"),
	row("192.0.2.0/24", ClassDocumentation, "TEST-NET-1"),
	row("192.88.99.0/24", ClassReserved, "6to4 relay anycast, deprecated"),
	row("192.168.0.0/16", ClassPrivate, "RFC 1918"),
	row("198.18.0.0/15", ClassReserved, "benchmarking"),
	row("198.51.100.0/24", ClassDocumentation, "TEST-NET-2"),
	row("203.0.113.0/24", ClassDocumentation, "TEST-NET-3"),
	row("224.0.0.0/4", ClassMulticast, "multicast"),
	row("240.0.0.0/4", ClassReserved, "reserved for future use"),
)

var special6 = table(
	row("fd00:ec2::254/128", ClassMetadata, "AWS"),
	row("fd00:ec2::23/128", ClassMetadata, "AWS EKS pod identity"),
	row("fd20:ce::254/128", ClassMetadata, "Google Cloud"),
	row("fd00:42::42/128", ClassMetadata, "Scaleway"),
	row("fe80::a9fe:a9fe/128", ClassMetadata, "OpenStack"),
	row("::/128", ClassUnspecified, "unspecified"),
	row("::1/128", ClassLoopback, "loopback"),
	row("64:ff9b:1::/48", ClassPrivate, "NAT64 for local use"),
	row("64:ff9b::/96", ClassPublic, "NAT64; judged by the address it carries"),
	row("2001::/32", ClassTunnel, "Teredo"),
	row("2001::/23", ClassReserved, "IETF protocol assignments"),
	row("2001:db8::/32", ClassDocumentation, "documentation"),
	row("2002::/16", ClassTunnel, "6to4"),
	row("3fff::/20", ClassDocumentation, "documentation"),
	row("2000::/3", ClassPublic, "global unicast"),
	row("fc00::/7", ClassPrivate, "unique local"),
	row("fe80::/10", ClassLinkLocal, "link-local"),
	row("fec0::/10", ClassPrivate, "site-local, deprecated"),
	row("ff00::/8", ClassMulticast, "multicast"),
	row("::/3", ClassReserved, "not assigned"),
	row("4000::/2", ClassReserved, "not assigned"),
	row("8000::/1", ClassReserved, "not assigned"),
)

func row(prefix string, class Class, note string) special {
	s := special{prefix: netip.MustParsePrefix(prefix), class: class, note: note}
	s.base[0], s.base[1] = halves(s.prefix.Addr())
	free := s.prefix.Addr().BitLen() - s.prefix.Bits()
	s.mask = [2]uint64{^uint64(0), ^uint64(0)}
	s.mask[1] <<= min(free, 64)
	s.mask[0] <<= max(free-64, 0)
	return s
}

// halves returns an address as two numbers, an IPv4 one in the second.
func halves(a netip.Addr) (hi, lo uint64) {
	if a.Is4() {
		b := a.As4()
		return 0, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

func table(rows ...special) []special { return rows }

// byFirst4 and byFirst6 are the rows that an address with a first byte can be in.
var byFirst4, byFirst6 = firsts(special4), firsts(special6)

func firsts(rows []special) *[256][]special {
	var out [256][]special
	for i := range rows {
		first := rows[i].prefix.Addr().AsSlice()[0]
		last := first
		if bits := rows[i].prefix.Bits(); bits < 8 {
			last |= 0xff >> bits
		}
		for b := int(first); b <= int(last); b++ {
			out[b] = append(out[b], rows[i])
		}
	}
	return &out
}

// find returns the special range of an address, nil when it is public.
func find(a netip.Addr) *special {
	hi, lo := halves(a)
	rows := byFirst4[lo>>24&0xff]
	if a.Is6() {
		rows = byFirst6[hi>>56]
	}
	for i := range rows {
		s := &rows[i]
		if lo&s.mask[1] == s.base[1] && hi&s.mask[0] == s.base[0] {
			if s.class == ClassPublic {
				return nil
			}
			return s
		}
	}
	return nil
}

// Range is a special range, for packet filters and for messages.
type Range struct {
	Prefix netip.Prefix
	Class  Class
	Note   string
}

// SpecialRanges returns all special ranges; one that lies in another comes
// before it. 2000::/3 and 64:ff9b::/96 are not among them.
func SpecialRanges() []Range {
	var out []Range
	for _, rows := range [][]special{special4, special6} {
		for _, r := range rows {
			if r.class != ClassPublic {
				out = append(out, Range{r.prefix, r.class, r.note})
			}
		}
	}
	return out
}

// metadataNames are names under which clouds offer their metadata service.
// They, and names below them, are denied without a lookup.
var metadataNames = []string{
	"metadata",
	"metadata.goog",
	"metadata.google.internal",
	"metadata.azure.internal",
	"metadata.azure.com",
	"metadata.tencentyun.com",
	"metadata.packet.net",
	"metadata.platformequinix.com",
	"instance-data",
	"instance-data.ec2.internal",
	"api.metadata.cloud.ibm.com",
}

// localNames are names of the machine itself.
var localNames = []string{
	"localhost",
	"localhost.localdomain",
	"localhost4",
	"localhost6",
	"localhost4.localdomain4",
	"localhost6.localdomain6",
	"ip6-localhost",
	"ip6-loopback",
}

// NameClass returns ClassLoopback for localhost and names below it,
// ClassMetadata for a cloud's metadata service and names below it, else
// ClassPublic. It looks nothing up.
func NameClass(name string) Class {
	switch {
	case under(name, localNames):
		return ClassLoopback
	case under(name, metadataNames):
		return ClassMetadata
	}
	return ClassPublic
}

// MetadataNames returns the names of metadata services that are denied.
func MetadataNames() []string { return append([]string(nil), metadataNames...) }

// LocalNames returns the names of the machine itself that are denied.
func LocalNames() []string { return append([]string(nil), localNames...) }

func under(name string, set []string) bool {
	for _, s := range set {
		if d := len(name) - len(s); d >= 0 && name[d:] == s && (d == 0 || name[d-1] == '.') {
			return true
		}
	}
	return false
}
