// Package host normalises what names a destination, in one place: host names,
// addresses in every spelling, URLs and their paths; and classifies addresses.
// Two spellings of one host give one Host, so they cannot get two verdicts.
//
// # Names
//
// A name is mapped by UTS 46 (non-transitional) to lower-case A-labels; one
// trailing dot is removed; labels have 1 to 63 characters of a-z, 0-9, "_" and
// "-" (not at their edges), a name at most 253. A name whose last label is a
// number is an IPv4 address in one of its old spellings (WHATWG URL, "ends in a
// number"), or nothing: 127.1, 0x7f000001, 017700000001 are 127.0.0.1.
//
// # Addresses
//
// IPv4 mapped into IPv6 is IPv4. Other forms that carry an IPv4 address keep
// their own identity and are classified by what they carry; see Classify.
package host

import "net/netip"

// Host is a normalised host: a name or an address, never both. Values are
// comparable. The zero value is no host.
type Host struct {
	name string
	addr netip.Addr
}

// FromAddr returns the host that is an address. IPv4 mapped into IPv6 becomes
// IPv4. A zone is dropped; Parse refuses one, because text with a zone comes
// from a client while an Addr with one comes from our own sockets.
func FromAddr(a netip.Addr) Host { return Host{addr: a.WithZone("").Unmap()} }

// IsAddr reports whether the host is an address.
func (h Host) IsAddr() bool { return h.addr.IsValid() }

// IsZero reports whether h is no host.
func (h Host) IsZero() bool { return h.name == "" && !h.addr.IsValid() }

// Addr returns the address, or the zero Addr for a name.
func (h Host) Addr() netip.Addr { return h.addr }

// Name returns the name in lower-case A-labels without trailing dot, or "" for
// an address.
func (h Host) Name() string { return h.name }

// String returns the name, or the address without brackets.
func (h Host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// URLHost returns the host as it stands in a URL: IPv6 in brackets.
func (h Host) URLHost() string {
	if h.addr.Is6() {
		return "[" + h.addr.String() + "]"
	}
	return h.String()
}
