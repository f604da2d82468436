package host

import "net/netip"

// Class is what kind of address an address is. All but ClassPublic are denied
// unless a policy opens the range.
type Class string

// The classes.
const (
	ClassPublic        Class = "public"
	ClassUnspecified   Class = "unspecified"
	ClassLoopback      Class = "loopback"
	ClassLinkLocal     Class = "link-local"
	ClassPrivate       Class = "private"
	ClassCGNAT         Class = "cgnat"
	ClassMetadata      Class = "metadata"
	ClassMulticast     Class = "multicast"
	ClassBroadcast     Class = "broadcast"
	ClassDocumentation Class = "documentation"
	ClassReserved      Class = "reserved"
	ClassTunnel        Class = "tunnel" // 6to4 and Teredo, whose far end is unknown
)

// Classification is what Classify found out.
type Classification struct {
	Class Class
	// Range is the special range that contains the address, or the zero Prefix.
	Range netip.Prefix
	// Embedded is the IPv4 address inside an IPv6 one that Class is about, or the
	// zero Addr; Form says how it is embedded: "mapped", "compatible", "nat64",
	// "6to4", "teredo", "isatap".
	Embedded netip.Addr
	Form     string
}

// Classify says what kind of address a is.
func Classify(a netip.Addr) Classification { return Classification{Class: ClassReserved} }
