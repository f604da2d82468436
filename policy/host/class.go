package host

import (
	"encoding/binary"
	"net/netip"
)

// Class is what kind of address an address is. All but ClassPublic are denied
// unless a policy opens the range.
type Class string

// The classes. Their sources are the IANA special-purpose address registries
// (RFC 6890 and its updates) and the documents of the cloud providers.
const (
	ClassPublic        Class = "public"
	ClassUnspecified   Class = "unspecified"   // 0.0.0.0/8, ::
	ClassLoopback      Class = "loopback"      // 127.0.0.0/8, ::1
	ClassLinkLocal     Class = "link-local"    // 169.254.0.0/16, fe80::/10
	ClassPrivate       Class = "private"       // RFC 1918, fc00::/7, fec0::/10, 64:ff9b:1::/48
	ClassCGNAT         Class = "cgnat"         // 100.64.0.0/10
	ClassMetadata      Class = "metadata"      // a cloud's metadata or credential service
	ClassMulticast     Class = "multicast"     // 224.0.0.0/4, ff00::/8
	ClassBroadcast     Class = "broadcast"     // 255.255.255.255
	ClassDocumentation Class = "documentation" // RFC 5737, RFC 3849, RFC 9637
	ClassReserved      Class = "reserved"      // the rest that is not for the public internet
	ClassTunnel        Class = "tunnel"        // 6to4 and Teredo, whose far end is unknown
)

// Layer is one address that a packet would reach, and its special range.
type Layer struct {
	Addr  netip.Addr
	Class Class
	Range netip.Prefix // the special range that contains Addr; zero for ClassPublic
}

// Classification is what Classify found out.
type Classification struct {
	// Class is the class that decides: metadata when any layer is that, else that
	// of the first special address embedded, else that of the address itself.
	Class Class
	// Form says how an IPv4 address is embedded: "compatible", "translated",
	// "nat64", "6to4", "teredo", "isatap"; "" when none is.
	Form    string
	layers  [maxLayers]layer
	n       int
	carries bool // Class is an embedded address's
}

type layer struct {
	addr    netip.Addr
	special *special // nil: public
}

const maxLayers = 5 // the address, and four readings of a local NAT64 prefix

// Len returns the number of layers: of addresses that have to be open for a
// connection to be, the address itself and those embedded in it.
func (c *Classification) Len() int { return c.n }

// Layer returns one of them; the first is the address itself.
func (c *Classification) Layer(i int) Layer {
	l := &c.layers[i]
	if l.special == nil {
		return Layer{Addr: l.addr, Class: ClassPublic}
	}
	return Layer{Addr: l.addr, Class: l.special.class, Range: l.special.prefix}
}

func (c *Classification) add(a netip.Addr) {
	l := &c.layers[c.n]
	l.addr, l.special = a, find(a)
	class := ClassPublic
	if l.special != nil {
		class = l.special.class
	}
	c.n++
	switch {
	case c.n == 1:
		c.Class = class
	case class == ClassMetadata, class != ClassPublic && !c.carries:
		c.Class, c.carries = class, true
	}
}

// Classify says what kind of address a is. An IPv4-mapped address is the IPv4
// address. Other IPv6 addresses that carry an IPv4 address are judged by both;
// the forms are IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765), NAT64
// with the well-known and the local prefix (RFC 6052, RFC 8215), 6to4 (RFC 3056),
// Teredo (RFC 4380, server and client) and ISATAP (RFC 5214). A NAT64 prefix of
// an operator's own cannot be told from any other address.
func Classify(a netip.Addr) Classification {
	var c Classification
	a = a.WithZone("").Unmap()
	if !a.IsValid() {
		c.Class = ClassReserved
		return c
	}
	c.add(a)
	if a.Is6() {
		c.embedded(a.As16())
	}
	return c
}

// embedded adds the IPv4 addresses that an IPv6 one carries.
func (c *Classification) embedded(b [16]byte) {
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	low := uint32(lo)
	switch {
	case hi == 0 && lo>>32 == 0:
		if lo > 1 { // :: and ::1 are themselves
			c.form("compatible", low)
		}
	case hi == 0 && lo>>32 == 0xffff0000:
		c.form("translated", low)
	case hi == 0x0064ff9b<<32 && lo>>32 == 0:
		c.form("nat64", low)
	case hi>>16 == 0x0064ff9b0001:
		c.localNAT64(hi, lo)
	case hi>>48 == 0x2002:
		c.form("6to4", uint32(hi>>16))
	case hi>>32 == 0x20010000:
		c.form("teredo", uint32(hi))
		c.form("teredo", ^low)
	case lo>>32 == 0x00005efe || lo>>32 == 0x02005efe:
		c.form("isatap", low)
	}
}

func (c *Classification) form(name string, v4 uint32) {
	c.Form = name
	c.add(addr4(v4))
}

// localNAT64 reads the prefix for local use, 64:ff9b:1::/48, under which the
// operator chose one of the lengths of RFC 6052, section 2.2. Which one is not
// visible, so every reading that is not all zero counts.
func (c *Classification) localNAT64(hi, lo uint64) {
	c.Form = "nat64"
	low, subnet := uint32(lo), uint16(hi)
	if subnet != 0 {
		c.add(addr4(uint32(subnet)<<16 | uint32(lo>>40&0xffff))) // /48
	}
	if subnet&0xff != 0 {
		c.add(addr4(uint32(subnet&0xff)<<24 | uint32(lo>>32&0xffffff))) // /56
	}
	if lo>>32 != 0 {
		c.add(addr4(uint32(lo >> 24))) // /64
	}
	if low&0xffffff != 0 || low != 0 && lo>>32 == 0 {
		c.add(addr4(low)) // /96
	}
}

func addr4(v uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}
