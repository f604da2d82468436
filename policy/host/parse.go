package host

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Bounds on a host.
const (
	MaxName  = 253  // bytes of a name (RFC 1035, without the root's dot)
	MaxLabel = 63   // bytes of a label
	MaxInput = 2048 // bytes of a text that is looked at, before mapping
)

// profile is UTS 46 as browsers apply it: non-transitional, with the bidi and
// joiner rules, without the hyphen rule (names like r3---sn-x are in use). Which
// ASCII characters may stand in a name is checked here, after mapping.
var profile = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.StrictDomainName(false),
)

// Parse normalises a host as it stands in a URL, a Host header, a CONNECT
// target, an SNI or a DNS query: a name in any case and script, with or without
// trailing dot, or an address in any spelling, IPv6 with or without brackets.
// It does not allocate when the text is in normal form already. The error is an
// *Error.
func Parse(s string) (Host, error) {
	switch {
	case s == "":
		return Host{}, refuse(s, CodeEmpty, "the host is empty")
	case len(s) > MaxInput:
		return Host{}, refuse(s, CodeTooLong, "the host is too long")
	case s[0] == '[':
		if s[len(s)-1] != ']' {
			return Host{}, refuse(s, CodeAddress, "the bracket of an IPv6 address is not closed")
		}
		return parseIPv6(s, s[1:len(s)-1])
	case strings.IndexByte(s, ':') >= 0:
		return parseIPv6(s, s)
	}
	name, err := normalise(s)
	if err != nil {
		return Host{}, err
	}
	if endsInNumber(name) {
		a, ok := parseIPv4(name)
		if !ok {
			return Host{}, refuse(s, CodeAddress, "the last label is a number, but this is no IPv4 address")
		}
		return Host{addr: a}, nil
	}
	return Host{name: name}, nil
}

func parseIPv6(input, s string) (Host, error) {
	if strings.IndexByte(s, '%') >= 0 {
		return Host{}, refuse(input, CodeZone, "an IPv6 zone id cannot be reached from here")
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4() {
		return Host{}, refuse(input, CodeAddress, "not an IPv6 address")
	}
	return Host{addr: a.Unmap()}, nil
}

// normalise returns a name in normal form, or s itself when it is.
func normalise(s string) (string, *Error) {
	name := s
	if !plain(name) {
		if err := checkCharacters(s); err != nil {
			return "", err
		}
		name = lower(name)
		if !plain(name) || hasACE(name) {
			mapped, err := profile.ToASCII(name)
			if err != nil {
				return "", refuse(s, CodeIDNA, "not a valid internationalised name: "+err.Error())
			}
			name = mapped
		}
	} else if hasACE(name) {
		mapped, err := profile.ToASCII(name)
		if err != nil || mapped != strings.TrimSuffix(name, ".") && mapped != name {
			return "", refuse(s, CodeIDNA, "not a valid internationalised name: an xn-- label does not decode to what encodes to it")
		}
	}
	name = strings.TrimSuffix(name, ".")
	if err := checkLabels(s, name); err != nil {
		return "", err
	}
	return name, nil
}

// plain reports whether s has only characters of a name in normal form.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return true
}

// hasACE reports whether a label begins with xn--.
func hasACE(s string) bool {
	for i := 0; i+4 <= len(s); i++ {
		if s[i] == 'x' && s[i+1:i+4] == "n--" && (i == 0 || s[i-1] == '.') {
			return true
		}
	}
	return false
}

// lower lowers ASCII letters only; the rest is UTS 46's.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// checkCharacters names the ASCII characters that never stand in a host. What
// UTS 46 maps to them is caught by checkLabels.
func checkCharacters(s string) *Error {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c <= 0x20 || c == 0x7f:
			return refuse(s, CodeCharacter, "the host has white space, a control character or NUL")
		case c == '%':
			return refuse(s, CodeCharacter, "the host has a percent sign; write the character itself")
		case c == '*':
			return refuse(s, CodeWildcard, "a host has no *; in a policy it is a whole leading label, as in *.example.org")
		case c >= 0x80, 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return refuse(s, CodeCharacter, "the host has the character "+string(rune(c)))
		}
	}
	return nil
}

// checkLabels checks lengths and characters of a name in normal form.
func checkLabels(input, name string) *Error {
	if name == "" {
		return refuse(input, CodeEmpty, "the host is empty")
	}
	if len(name) > MaxName {
		return refuse(input, CodeTooLong, "the host name has more than 253 characters")
	}
	if !plain(name) {
		return refuse(input, CodeCharacter, "the host has a character that no host name has")
	}
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '.' {
			continue
		}
		switch label := name[start:i]; {
		case label == "":
			return refuse(input, CodeLabel, "the host has an empty label (two dots in a row, or one in front)")
		case len(label) > MaxLabel:
			return refuse(input, CodeLabel, "a label of the host has more than 63 characters")
		case label[0] == '-' || label[len(label)-1] == '-':
			return refuse(input, CodeLabel, "a label of the host begins or ends with a hyphen")
		}
		start = i + 1
	}
	return nil
}

// endsInNumber reports whether the last label is a decimal number or 0x and
// hexadecimal digits, which makes the whole an IPv4 address or invalid.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits := true
	for i := 0; i < len(last); i++ {
		if last[i] < '0' || last[i] > '9' {
			digits = false
			break
		}
	}
	if digits {
		return true
	}
	return len(last) >= 2 && last[:2] == "0x" && hexOnly(last[2:])
}

func hexOnly(s string) bool {
	for i := 0; i < len(s); i++ {
		if _, ok := unhex(s[i]); !ok {
			return false
		}
	}
	return true
}

// parseIPv4 reads every spelling that inet_aton reads: one to four numbers,
// each decimal, octal or hexadecimal, the last filling what is left.
func parseIPv4(s string) (netip.Addr, bool) {
	var parts [4]uint64
	n := 0
	for {
		dot := strings.IndexByte(s, '.')
		part := s
		if dot >= 0 {
			part = s[:dot]
		}
		if n == len(parts) {
			return netip.Addr{}, false
		}
		v, ok := parseNumber(part)
		if !ok {
			return netip.Addr{}, false
		}
		parts[n] = v
		n++
		if dot < 0 {
			break
		}
		s = s[dot+1:]
	}
	last := parts[n-1]
	if last >= 1<<(8*(5-n)) {
		return netip.Addr{}, false
	}
	v := last
	for i := 0; i < n-1; i++ {
		if parts[i] > 255 {
			return netip.Addr{}, false
		}
		v |= parts[i] << (8 * (3 - i))
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

// parseNumber reads a decimal, octal (leading 0) or hexadecimal (leading 0x)
// number below 2^32.
func parseNumber(s string) (uint64, bool) {
	base := uint64(10)
	switch {
	case s == "":
		return 0, false
	case len(s) >= 2 && s[0] == '0' && s[1] == 'x':
		base, s = 16, s[2:]
	case len(s) >= 2 && s[0] == '0':
		base, s = 8, s[1:]
	}
	var v uint64
	for i := 0; i < len(s); i++ {
		d, ok := unhex(s[i])
		if !ok || uint64(d) >= base {
			return 0, false
		}
		if v = v*base + uint64(d); v >= 1<<32 {
			return 0, false
		}
	}
	return v, true
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
