package host

import "net/netip"

// special is one range of addresses that is not the public internet.
type special struct {
	prefix netip.Prefix
	class  Class
	note   string
}

// special4 and special6 are searched from the top: the first range that
// contains an address is its own. Metadata services come first.
var special4 = table(
	special{p("169.254.169.254/32"), ClassMetadata, "AWS, Google Cloud, Azure, OpenStack and others"},
	special{p("169.254.170.2/32"), ClassMetadata, "AWS ECS task credentials"},
	special{p("169.254.170.23/32"), ClassMetadata, "AWS EKS pod identity"},
	special{p("169.254.42.42/32"), ClassMetadata, "Scaleway"},
	special{p("169.254.0.23/32"), ClassMetadata, "Tencent Cloud"},
	special{p("100.100.100.200/32"), ClassMetadata, "Alibaba Cloud"},
	special{p("168.63.129.16/32"), ClassMetadata, "Azure's host agent"},
	special{p("192.0.0.192/32"), ClassMetadata, "Oracle Cloud"},
	special{p("255.255.255.255/32"), ClassBroadcast, "limited broadcast"},
	special{p("0.0.0.0/8"), ClassUnspecified, "this network"},
	special{p("10.0.0.0/8"), ClassPrivate, "RFC 1918"},
	special{p("100.64.0.0/10"), ClassCGNAT, "RFC 6598"},
	special{p("127.0.0.0/8"), ClassLoopback, "loopback"},
	special{p("169.254.0.0/16"), ClassLinkLocal, "link-local"},
	special{p("172.16.0.0/12"), ClassPrivate, "RFC 1918"},
	special{p("192.0.0.0/24"), ClassReserved, "IETF protocol assignments"},
	special{p("192.0.2.0/24"), ClassDocumentation, "TEST-NET-1"},
	special{p("192.88.99.0/24"), ClassReserved, "6to4 relay anycast, deprecated"},
	special{p("192.168.0.0/16"), ClassPrivate, "RFC 1918"},
	special{p("198.18.0.0/15"), ClassReserved, "benchmarking"},
	special{p("198.51.100.0/24"), ClassDocumentation, "TEST-NET-2"},
	special{p("203.0.113.0/24"), ClassDocumentation, "TEST-NET-3"},
	special{p("224.0.0.0/4"), ClassMulticast, "multicast"},
	special{p("240.0.0.0/4"), ClassReserved, "reserved for future use"},
)

var special6 = table(
	special{p("fd00:ec2::254/128"), ClassMetadata, "AWS"},
	special{p("fd00:ec2::23/128"), ClassMetadata, "AWS EKS pod identity"},
	special{p("fd20:ce::254/128"), ClassMetadata, "Google Cloud"},
	special{p("fd00:42::42/128"), ClassMetadata, "Scaleway"},
	special{p("fe80::a9fe:a9fe/128"), ClassMetadata, "OpenStack"},
	special{p("::/128"), ClassUnspecified, "unspecified"},
	special{p("::1/128"), ClassLoopback, "loopback"},
	special{p("64:ff9b:1::/48"), ClassPrivate, "NAT64 for local use"},
	special{p("64:ff9b::/96"), ClassPublic, "NAT64; judged by the address it carries"},
	special{p("2001::/32"), ClassTunnel, "Teredo"},
	special{p("2001::/23"), ClassReserved, "IETF protocol assignments"},
	special{p("2001:db8::/32"), ClassDocumentation, "documentation"},
	special{p("2002::/16"), ClassTunnel, "6to4"},
	special{p("3fff::/20"), ClassDocumentation, "documentation"},
	special{p("2000::/3"), ClassPublic, "global unicast"},
	special{p("fc00::/7"), ClassPrivate, "unique local"},
	special{p("fe80::/10"), ClassLinkLocal, "link-local"},
	special{p("fec0::/10"), ClassPrivate, "site-local, deprecated"},
	special{p("ff00::/8"), ClassMulticast, "multicast"},
	special{p("::/3"), ClassReserved, "not assigned"},
	special{p("4000::/2"), ClassReserved, "not assigned"},
	special{p("8000::/1"), ClassReserved, "not assigned"},
)

func p(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func table(rows ...special) []special { return rows }

// find returns the special range of an address, nil when it is public.
func find(a netip.Addr) *special {
	rows := special4
	if a.Is6() {
		rows = special6
	}
	for i := range rows {
		if rows[i].prefix.Contains(a) {
			if rows[i].class == ClassPublic {
				return nil
			}
			return &rows[i]
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
