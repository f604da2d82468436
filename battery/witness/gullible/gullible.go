// Package gullible reads a host as the most gullible dialler would, so that
// whatever trick a name plays on a strict proxy, behind an open one it works. It
// is pure.
//
//   - The text is cut at the first control character, blank, "#", "?", backslash
//     or "%00"; of what is left, what stands behind the last "@" counts.
//   - Percent escapes are decoded, letters outside ASCII are mapped as UTS 46
//     says, one final dot is dropped, brackets and an IPv6 zone are, too.
//   - Every spelling that inet_aton takes is an IPv4 address: decimal, octal and
//     hexadecimal numbers, one to four of them.
package gullible

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Host is where to go: a name, or an address.
type Host struct {
	Name string     // folded, "" for an address
	Addr netip.Addr // the zero Addr for a name
	Port uint16     // 0 when none was given
}

// String is the host without its port.
func (h Host) String() string {
	if h.Addr.IsValid() {
		return h.Addr.String()
	}
	return h.Name
}

// Loopback reports whether the host is the machine itself in any spelling: a
// loopback or unspecified address, localhost or a name below it.
func (h Host) Loopback() bool {
	if h.Addr.IsValid() {
		return h.Addr.IsLoopback() || h.Addr.IsUnspecified()
	}
	return h.Name == "localhost" || strings.HasSuffix(h.Name, ".localhost")
}

// mapper maps as UTS 46 does for lookups, and refuses nothing.
var mapper = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.VerifyDNSLength(false))

// Parse reads an authority: "host", "host:port", "user@host:port".
func Parse(authority string) Host {
	var h Host
	host := authority
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		if n, err := strconv.ParseUint(host[i+1:], 10, 16); err == nil && (strings.Contains(host, "]") || strings.Count(host, ":") == 1 || strings.Contains(host, "@")) {
			h.Port, host = uint16(n), host[:i]
		}
	}
	host = cut(host)
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	host = strings.Trim(host, "[]")
	if strings.Contains(host, ":") { // IPv6, of which a zone is dropped
		host, _, _ = strings.Cut(host, "%")
	} else if decoded, err := url.PathUnescape(host); err == nil {
		host = cut(decoded)
	}
	if !isASCII(host) {
		if mapped, err := mapper.ToASCII(host); err == nil {
			host = mapped
		}
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, ok := Address(host); ok {
		h.Addr = a
		return h
	}
	h.Name = host
	return h
}

// cut takes what comes before the first character that ends a name somewhere.
func cut(s string) string {
	if i := strings.Index(s, "%00"); i >= 0 {
		s = s[:i]
	}
	if i := strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' || c == '?' || c == '\\' }); i >= 0 {
		s = s[:i]
	}
	return s
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// Address reads an address in any spelling. An IPv4-mapped one is IPv4.
func Address(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.WithZone("").Unmap(), true
	}
	return aton(s)
}

// aton is inet_aton: one to four numbers, of which the last fills what is left.
func aton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		n, ok := number(p)
		last := i == len(parts)-1
		switch {
		case !ok || !last && n > 255:
			return netip.Addr{}, false
		case last && n >= 1<<(8*(4-uint(i))):
			return netip.Addr{}, false
		case last:
			v |= n
		default:
			v |= n << (8 * (3 - uint(i)))
		}
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// number reads C's decimal, octal and hexadecimal.
func number(s string) (uint64, bool) {
	base, digits := 10, s
	switch {
	case strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X"):
		base, digits = 16, s[2:]
		if digits == "" {
			return 0, true // inet_aton takes a bare 0x for 0
		}
	case len(s) > 1 && s[0] == '0':
		base, digits = 8, s[1:]
	}
	if digits == "" || digits[0] == '+' || digits[0] == '-' || strings.Contains(digits, "_") {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, base, 33)
	return n, err == nil
}
