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
// with separators, percent and backslash-x escapes, and gzip. It reads at most
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
	folded := bytes.ToLower(asciiOnly(b))
	f.plain(folded)
	f.plain(reversed(folded))
	stripped := keep(folded, isAlnum)
	if len(stripped) != len(folded) {
		f.plain(stripped)
		f.plain(reversed(stripped))
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

// escapes undoes percent and backslash-x escapes.
func (f *finder) escapes(b []byte, depth int) {
	out := make([]byte, 0, len(b))
	changed := false
	for i := 0; i < len(b); i++ {
		skip := 0
		switch {
		case b[i] == '%' && i+2 < len(b):
			skip = 1
		case b[i] == '\\' && i+3 < len(b) && (b[i+1] == 'x' || b[i+1] == 'X'):
			skip = 2
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
	for _, run := range runs(b, isHex, 2*Length) {
		f.hexDecode(run, depth)
	}
	for _, run := range runs(b, func(c byte) bool { return isHex(c) || isSeparator(c) }, 3*Length-1) {
		digits := keep(run, isHex)
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
	for _, run := range runs(b, isBase64, least) {
		f.base64Decode(run, depth)
	}
	for _, run := range runs(b, func(c byte) bool { return isBase64(c) || c == '\r' || c == '\n' }, least+1) {
		if digits := keep(run, isBase64); len(digits) != len(run) {
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

// runs returns the maximal stretches of b, at least least long, whose bytes all
// satisfy in.
func runs(b []byte, in func(byte) bool, least int) [][]byte {
	var out [][]byte
	start := -1
	for i := 0; i <= len(b); i++ {
		if i < len(b) && in(b[i]) {
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
	return out
}

func keep(b []byte, in func(byte) bool) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if in(c) {
			out = append(out, c)
		}
	}
	return out
}

// asciiOnly copies b with every byte outside ASCII made a separator, so that
// folding case cannot turn a foreign letter into one of ours.
func asciiOnly(b []byte) []byte {
	out := slices.Clone(b)
	for i, c := range out {
		if c >= 0x80 {
			out[i] = 0
		}
	}
	return out
}

func reversed(b []byte) []byte {
	out := slices.Clone(b)
	slices.Reverse(out)
	return out
}

func isAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func isHex(c byte) bool { return unhex(c) >= 0 }

func isSeparator(c byte) bool {
	switch c {
	case ' ', ':', '-', ',', '.', '\n', '\r', '\t', '_':
		return true
	}
	return false
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '+' || c == '/' || c == '-' || c == '_'
}

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
