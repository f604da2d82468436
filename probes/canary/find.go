package canary

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"io"
	"slices"
)

// Bounds of Find. What exceeds them is cut, not refused: a finder that gives up
// on large input is one that large input switches off.
const (
	maxDepth   = 3       // encodings inside one another
	maxInflate = 8 << 20 // bytes taken from one gzip member
	maxMembers = 16      // gzip members looked into per level
	maxWork    = 64 << 20
)

// Find returns the digests of all canaries in b, sorted and without repeats. It
// sees through, alone or up to three deep: letter case, reversal, separators
// between the characters (anything but letters and digits), base64 in both
// alphabets at each offset and with line breaks, hexadecimal in either case and
// with separators, percent, backslash-x and backslash-u escapes, and gzip. It reads at most
// 64 MiB in all, decoded bytes included.
func Find(b []byte) []string {
	f := finder{found: map[string]bool{}, budget: maxWork}
	f.scan(b, maxDepth)
	return f.digests()
}

func (f *finder) digests() []string {
	out := make([]string, 0, len(f.found))
	for d := range f.found {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

// Contains reports whether Find would return anything.
func Contains(b []byte) bool { return len(Find(b)) > 0 }

type finder struct {
	found  map[string]bool
	budget int
}

// scan looks at b itself and, while depth lasts, at everything b decodes to.
func (f *finder) scan(b []byte, depth int) {
	if len(b) < Length || f.budget <= 0 {
		return
	}
	if len(b) > f.budget {
		b = b[:f.budget]
	}
	f.budget -= len(b)
	folded, stripped := fold(b)
	f.both(folded)
	if len(stripped) != len(folded) {
		f.both(stripped)
	}
	if depth <= 1 {
		return
	}
	f.escapes(b, depth)
	f.hexRuns(b, depth)
	f.base64Runs(b, depth)
	f.gzipMembers(b, depth)
}

// plain records the canaries that stand in b as they are.
func (f *finder) plain(b []byte) {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(prefix))
		if i < 0 {
			return
		}
		at += i
		if validAt(b, at) {
			f.found[Digest(string(b[at:at+Length]))] = true
			at += Length
			continue
		}
		at++
	}
}

// both records the canaries that stand in b forwards and backwards.
func (f *finder) both(b []byte) {
	f.plain(b)
	for end := len(b); ; {
		i := bytes.LastIndex(b[:end], backwards)
		if i < 0 {
			return
		}
		if from := i - bodyLength; from >= 0 {
			f.plain(reversed(b[from : i+prefixLength]))
		}
		end = i + prefixLength - 1
	}
}

// escapes undoes percent, backslash-x and backslash-u escapes, of the latter those of
// single bytes: no canary has other characters.
func (f *finder) escapes(b []byte, depth int) {
	if !bytes.ContainsAny(b, "%\\") {
		return
	}
	out := make([]byte, 0, len(b))
	changed := false
	for i := 0; i < len(b); i++ {
		skip := 0
		switch {
		case b[i] == '%' && i+2 < len(b):
			skip = 1
		case b[i] == '\\' && i+3 < len(b) && (b[i+1] == 'x' || b[i+1] == 'X'):
			skip = 2
		case b[i] == '\\' && i+5 < len(b) && b[i+1] == 'u' && b[i+2] == '0' && b[i+3] == '0':
			skip = 4
		}
		if skip > 0 {
			if hi, lo := unhex(b[i+skip]), unhex(b[i+skip+1]); hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += skip + 1
				changed = true
				continue
			}
		}
		out = append(out, b[i])
	}
	if changed {
		f.scan(out, depth-1)
	}
}

// hexRuns decodes what remains of b when everything but hexadecimal digits
// between digits is taken for a separator, at both alignments.
func (f *finder) hexRuns(b []byte, depth int) {
	for _, run := range runs(b, classHex, 2*Length) {
		f.hexDecode(run, depth)
	}
	for _, run := range runs(b, classHex|classSeparator, 3*Length-1) {
		digits := keep(run, classHex)
		if len(digits) >= 2*Length && len(digits) != len(run) {
			f.hexDecode(digits, depth)
		}
	}
}

func (f *finder) hexDecode(digits []byte, depth int) {
	for offset := 0; offset < 2; offset++ {
		part := digits[min(offset, len(digits)):]
		part = part[:len(part)&^1]
		out := make([]byte, hex.DecodedLen(len(part)))
		if _, err := hex.Decode(out, part); err == nil {
			f.scan(out, depth-1)
		}
	}
}

// base64Runs decodes runs of base64 characters at each of four alignments,
// which covers all three offsets at which a canary can stand in its encoding.
func (f *finder) base64Runs(b []byte, depth int) {
	const least = (Length*4 + 2) / 3
	for _, run := range runs(b, classBase64, least) {
		f.base64Decode(run, depth)
	}
	for _, run := range runs(b, classBase64|classLine, least+1) {
		if digits := keep(run, classBase64); len(digits) != len(run) {
			f.base64Decode(digits, depth)
		}
	}
}

func (f *finder) base64Decode(digits []byte, depth int) {
	std := bytes.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, digits)
	for offset := 0; offset < 4; offset++ {
		part := std[min(offset, len(std)):]
		if len(part)%4 == 1 {
			part = part[:len(part)-1]
		}
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(part)))
		n, err := base64.RawStdEncoding.Decode(out, part)
		if err == nil || n > 0 {
			f.scan(out[:n], depth-1)
		}
	}
}

// gzipMembers inflates whatever follows each gzip header, as far as it goes.
func (f *finder) gzipMembers(b []byte, depth int) {
	for at, members := 0, 0; members < maxMembers; members++ {
		i := bytes.Index(b[at:], []byte{0x1f, 0x8b, 0x08})
		if i < 0 {
			return
		}
		at += i
		if zr, err := gzip.NewReader(bytes.NewReader(b[at:])); err == nil {
			// A damaged tail still leaves what came before it.
			out, _ := io.ReadAll(io.LimitReader(zr, int64(min(maxInflate, max(f.budget, 0)))))
			f.scan(out, depth-1)
		}
		at++
	}
}

// runs returns the maximal stretches of b, at least least long, whose bytes are
// all of the class.
func runs(b []byte, class byte, least int) [][]byte {
	var out [][]byte
	start := -1
	for i, c := range b {
		if classes[c]&class != 0 {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && i-start >= least {
			out = append(out, b[start:i])
		}
		start = -1
	}
	if start >= 0 && len(b)-start >= least {
		out = append(out, b[start:])
	}
	return out
}

// keep returns the bytes of b that are of the class.
func keep(b []byte, class byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if classes[c]&class != 0 {
			out = append(out, c)
		}
	}
	return out
}

// fold returns b with ASCII letters in lower case and every byte outside ASCII
// made a separator, so that no foreign letter becomes one of ours; and that
// without anything but letters and digits.
func fold(b []byte) (folded, stripped []byte) {
	folded = make([]byte, len(b))
	stripped = make([]byte, 0, len(b))
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		} else if c >= 0x80 {
			c = 0
		}
		folded[i] = c
		if classes[c]&classAlnum != 0 {
			stripped = append(stripped, c)
		}
	}
	return folded, stripped
}

func reversed(b []byte) []byte {
	out := slices.Clone(b)
	slices.Reverse(out)
	return out
}

// backwards is the prefix, read from its end.
var backwards = reversed([]byte(prefix))

// Classes of bytes.
const (
	classAlnum     = 1 << iota // letters and digits
	classHex                   // hexadecimal digits
	classSeparator             // what may stand between hexadecimal digits
	classBase64                // both alphabets
	classLine                  // line ends
)

var classes = func() (t [256]byte) {
	for c := range t {
		switch c := byte(c); {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			t[c] = classAlnum | classBase64
		case c == '+', c == '/':
			t[c] = classBase64
		case c == '-', c == '_':
			t[c] = classBase64 | classSeparator
		case c == '\r', c == '\n':
			t[c] = classSeparator | classLine
		case c == ' ', c == ':', c == ',', c == '.', c == '\t':
			t[c] = classSeparator
		}
		if unhex(byte(c)) >= 0 {
			t[c] |= classHex
		}
	}
	return t
}()

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// FindPlain is Find for bulk: it sees canaries that stand in b as they are, in
// lower case, and nothing else.
func FindPlain(b []byte) []string {
	f := finder{found: map[string]bool{}}
	f.plain(b)
	return f.digests()
}
