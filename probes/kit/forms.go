package kit

import (
	"net/netip"
	"strings"
)

// NameFor returns a name that the world's DNS resolves to an address: the
// attempt's nonce, the address with dashes in place of dots or colons, and a
// domain below which names are allowed (the last labels of a name of
// probes.Names).
func NameFor(nonce, names string, to netip.Addr) string {
	_, base, _ := strings.Cut(names, ".")
	for strings.HasPrefix(base, "to-") || strings.HasPrefix(base, "to6-") {
		_, base, _ = strings.Cut(base, ".")
	}
	label := "to-" + strings.ReplaceAll(to.String(), ".", "-")
	if to.Is6() {
		label = "to6-" + dashed(to)
	}
	return nonce + "." + label + "." + base
}

// dashed is an IPv6 address in groups of hexadecimal digits between dashes. No
// label may begin or end with a dash, so that zeros are written there.
func dashed(a netip.Addr) string {
	b := a.As16()
	groups := make([]string, 8)
	const hex = "0123456789abcdef"
	for i := range groups {
		v := uint16(b[2*i])<<8 | uint16(b[2*i+1])
		s := string([]byte{hex[v>>12], hex[v>>8&15], hex[v>>4&15], hex[v&15]})
		if s = strings.TrimLeft(s, "0"); s == "" {
			s = "0"
		}
		groups[i] = s
	}
	return strings.Join(groups, "-")
}

// Embeddings are IPv6 addresses that carry an IPv4 one, in every form that a
// gateway or a kernel takes for it: compatible (RFC 4291), translated (RFC 2765),
// NAT64 with both prefixes (RFC 6052, RFC 8215), 6to4 (RFC 3056), Teredo by server
// and by client (RFC 4380) and ISATAP (RFC 5214). The mapped form is no address of
// its own.
func Embeddings(v4 netip.Addr) []netip.Addr {
	b := v4.As4()
	var out []netip.Addr
	for _, form := range []string{
		"::ffff:0:V", "64:ff9b::V", "64:ff9b:1::V",
	} {
		a, err := netip.ParseAddr(strings.Replace(form, "V", v4.String(), 1))
		if err == nil {
			out = append(out, a)
		}
	}
	sixToFour := [16]byte{0x20, 0x02, b[0], b[1], b[2], b[3]}
	server := [16]byte{0x20, 0x01, 0, 0, b[0], b[1], b[2], b[3], 0, 0, 0, 0, 0xa6, 0xbf, 0x9b, 0xfe}
	client := [16]byte{0x20, 0x01, 0, 0, 99, 64, 1, 1, 0, 0, 0, 0, ^b[0], ^b[1], ^b[2], ^b[3]}
	isatap := [16]byte{0x2a, 0x0d, 0x56, 0, 0, 0, 0, 1, 0x02, 0, 0x5e, 0xfe, b[0], b[1], b[2], b[3]}
	for _, raw := range [][16]byte{sixToFour, server, client, isatap} {
		out = append(out, netip.AddrFrom16(raw))
	}
	// Last: kernels do not answer from such an address, so that where nothing
	// refuses it, it costs a whole timeout.
	return append(out, netip.AddrFrom16([16]byte{12: b[0], b[1], b[2], b[3]}))
}
