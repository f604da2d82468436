package host

import "strings"

// MaxURL is the longest URL that is read, in bytes.
const MaxURL = 32 << 10

// URL is a normalised http or https URL without query and fragment.
type URL struct {
	Scheme string // "http" or "https" (also for ws and wss)
	Host   Host
	Port   uint16 // always explicit
	Path   string // raw, as sent; begins with "/"
	Query  string // raw, without "?"
}

// DefaultPort returns the port of a scheme, 0 for an unknown one.
func DefaultPort(scheme string) uint16 {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

// String returns the URL with what is implied left out: no default port.
func (u URL) String() string {
	s := u.Scheme + "://" + u.Host.URLHost()
	if u.Port != DefaultPort(u.Scheme) {
		s += ":" + itoa(u.Port)
	}
	return s + u.Path
}

// ParseURL reads an absolute URL as strictly as a server that must not be
// fooled: no white space or control character anywhere, no backslash, no user
// information. The error is an *Error.
func ParseURL(raw string) (URL, error) {
	if len(raw) > MaxURL {
		return URL{}, refuse(raw, CodeTooLong, "the URL is too long")
	}
	for i := 0; i < len(raw); i++ {
		if c := raw[i]; c <= 0x20 || c == 0x7f {
			return URL{}, refuse(raw, CodeCharacter, "the URL has white space or a control character")
		}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return URL{}, refuse(raw, CodeScheme, "not an absolute URL: it begins with http:// or https://")
	}
	scheme = lower(scheme)
	switch scheme {
	case "http", "https":
	case "ws":
		scheme = "http"
	case "wss":
		scheme = "https"
	default:
		return URL{}, refuse(raw, CodeScheme, "the scheme is neither http nor https")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	switch {
	case strings.IndexByte(authority, '@') >= 0:
		return URL{}, refuse(raw, CodeUserinfo, "the URL has a user name before the host (user@host)")
	case strings.IndexByte(authority, '\\') >= 0:
		return URL{}, refuse(raw, CodeCharacter, "the URL has a backslash, which some programs read as a slash")
	}
	h, port, err := ParseHostPort(authority, DefaultPort(scheme))
	if err != nil {
		return URL{}, err
	}
	u := URL{Scheme: scheme, Host: h, Port: port}
	tail, _, _ = strings.Cut(tail, "#")
	u.Path, u.Query, _ = strings.Cut(tail, "?")
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// ParseHostPort reads "host", "host:port" or "[ipv6]:port", as in a CONNECT
// target or a Host header. Without a port it returns def; with def 0 a port is
// required. Brackets around anything but an IPv6 address are refused. The error
// is an *Error.
func ParseHostPort(s string, def uint16) (Host, uint16, error) {
	name, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return Host{}, 0, refuse(s, CodeAddress, "the bracket of an IPv6 address is not closed")
		}
		name, port = s[:end+1], s[end+1:]
		if port != "" {
			if port[0] != ':' {
				return Host{}, 0, refuse(s, CodePort, "something other than a port follows the bracket")
			}
			port, hasPort = port[1:], true
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		name, port, hasPort = s[:i], s[i+1:], true
	}
	p := def
	if hasPort {
		v, ok := ParsePort(port)
		if !ok {
			return Host{}, 0, refuse(s, CodePort, "the port is not a number from 1 to 65535")
		}
		p = v
	}
	if p == 0 {
		return Host{}, 0, refuse(s, CodePort, "the port is missing")
	}
	h, err := Parse(name)
	if err != nil {
		return Host{}, 0, err
	}
	return h, p, nil
}

// ParsePort reads a port from 1 to 65535 in plain decimal.
func ParsePort(s string) (uint16, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return 0, false
	}
	v := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		v = v*10 + int(s[i]-'0')
	}
	return uint16(v), v <= 65535
}

func itoa(v uint16) string {
	var b [5]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + v%10)
		if v /= 10; v == 0 {
			return string(b[i:])
		}
	}
}
