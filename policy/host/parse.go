package host

// Code says why a text is not a host, URL or path.
type Code string

// The codes.
const (
	CodeEmpty     Code = "empty"
	CodeTooLong   Code = "too-long"
	CodeLabel     Code = "label"     // empty or over-long label, or a hyphen at its edge
	CodeCharacter Code = "character" // a character that no host has: white space, control, NUL, percent, @, /, …
	CodeWildcard  Code = "wildcard"  // a * that is not a whole leading label
	CodeIDNA      Code = "idna"      // not a valid internationalised name
	CodeAddress   Code = "address"   // looks like an address and is none
	CodeZone      Code = "zone"      // an IPv6 zone id
	CodeScheme    Code = "scheme"    // URL without scheme, or another than http and https
	CodeUserinfo  Code = "userinfo"  // user@ in a URL
	CodePort      Code = "port"
	CodeEscape    Code = "escape"    // broken percent-encoding
	CodeAmbiguous Code = "ambiguous" // a path that two servers could read differently
)

// Error is a refusal.
type Error struct {
	Input string // quoted and cut in the message
	Code  Code
	Why   string
}

// Error describes the refusal in one line.
func (e *Error) Error() string { return e.Why }

// MaxName is the longest host name in bytes (RFC 1035, without the root dot).
const MaxName = 253

// Parse normalises a host as it stands in a URL, a Host header, a CONNECT
// target, an SNI or a DNS query: a name in any case and script, with or without
// trailing dot, or an address in any spelling, IPv6 with or without brackets.
// It does not allocate when the text is normal already. The error is an *Error.
func Parse(s string) (Host, error) {
	return Host{}, &Error{Input: s, Code: CodeEmpty, Why: "not built"}
}

// URL is a normalised http or https URL without query and fragment.
type URL struct {
	Scheme string // "http" or "https" (also for ws and wss)
	Host   Host
	Port   uint16 // always explicit
	Path   string // raw, as sent; begins with "/"
}

// ParseURL reads an absolute URL. The error is an *Error.
func ParseURL(raw string) (URL, error) {
	return URL{}, &Error{Input: raw, Code: CodeEmpty, Why: "not built"}
}

// CleanPath decodes a request's path once and cleans it: no query, no "//", no
// dot segments. A path that two servers could read differently (broken or double
// encoding, backslash, control characters, invalid UTF-8, an encoded slash beside
// a dot segment, "..;") is refused with CodeAmbiguous or CodeEscape.
func CleanPath(raw string) (string, error) {
	return "", &Error{Input: raw, Code: CodeEmpty, Why: "not built"}
}
