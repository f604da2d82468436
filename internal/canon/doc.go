// Package canon reads and writes the one JSON form in which evidence is
// hashed and signed: RFC 8785 (JCS) restricted to the I-JSON profile below.
//
// # Form
//
//   - UTF-8 without byte order mark; every string valid Unicode (no invalid
//     byte, no lone surrogate, not even as a \u escape).
//   - No white space between tokens.
//   - Members of an object in ascending order of their names' UTF-16 code
//     units, each name once.
//   - In strings only `"`, `\` and the control characters U+0000 to U+001F are
//     escaped: \" \\ \b \t \n \f \r, and \u00xx in lower case for the rest.
//   - Numbers are integers from −(2^53−1) to 2^53−1 in plain decimal, no
//     leading zero, no "-0", no fraction, no exponent.
//
// The restriction to integers is on purpose: the one part of RFC 8785 on which
// implementations differ, the shortest form of a binary64 fraction, is then
// never needed, and no value changes on its way through another language.
//
// # Why it is written here
//
// The module behind the signing libraries accepts lone surrogates and invalid
// UTF-8 (cases that have been reported against two public libraries), and
// encoding/json folds the case of member names, keeps the last of two equal
// names and replaces invalid bytes without a word. Any of these lets two
// readers see two documents behind one signature. So what is read is checked
// here first, byte for byte, and only then given to encoding/json.
package canon

// Limits bounds what is read. A zero field stands for its default.
type Limits struct {
	Bytes   int // length of the document; default DefaultBytes
	Depth   int // nesting of objects and arrays; default DefaultDepth
	Members int // members of one object or elements of one array; default DefaultMembers
}

// Defaults of Limits. They are far above anything that Wallproof writes and
// far below what would trouble a reader.
const (
	DefaultBytes   = 64 << 20
	DefaultDepth   = 64
	DefaultMembers = 1 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Depth == 0 {
		l.Depth = DefaultDepth
	}
	if l.Members == 0 {
		l.Members = DefaultMembers
	}
	return l
}
