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
	Input string // as given; it may be long and hold any byte
	Code  Code
	Why   string // lower case, without the input
}

// Error describes the refusal in one line, without the input.
func (e *Error) Error() string { return e.Why }

func refuse(input string, code Code, why string) *Error {
	return &Error{Input: input, Code: code, Why: why}
}
