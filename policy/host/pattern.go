package host

import "strings"

// Pattern is what a policy writes for hosts: one host, or every subdomain of a
// name at any depth.
type Pattern struct {
	Host       Host
	Subdomains bool // "*." stood in front; Host itself is not covered
}

// ParsePattern reads a host, or "*." and a name. A * anywhere else is refused,
// as are "*" and "*.", which mean everything and nothing. The error is an *Error.
func ParsePattern(s string) (Pattern, error) {
	rest, sub := strings.CutPrefix(s, "*.")
	switch {
	case s == "*":
		return Pattern{}, refuse(s, CodeWildcard, "* alone would mean every host; that is what a mode is for")
	case sub && rest == "":
		return Pattern{}, refuse(s, CodeWildcard, "*. has no name after it and matches nothing")
	case strings.Contains(rest, "*"):
		return Pattern{}, refuse(s, CodeWildcard, "* stands only as a whole leading label, as in *.example.org")
	}
	h, err := Parse(rest)
	if err != nil {
		return Pattern{}, err
	}
	if sub && h.IsAddr() {
		return Pattern{}, refuse(s, CodeWildcard, "an address has no subdomains; use cidr for a range")
	}
	return Pattern{Host: h, Subdomains: sub}, nil
}

// String returns the pattern in normal form.
func (p Pattern) String() string {
	if p.Subdomains {
		return "*." + p.Host.String()
	}
	return p.Host.String()
}
