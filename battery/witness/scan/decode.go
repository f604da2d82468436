package scan

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strconv"

	"github.com/wallproof/wallproof/probes/nonce"
)

// Bounds of decoding.
const (
	maxInflate = 4 << 20 // bytes taken from one compressed member
	maxMembers = 8       // compressed members tried per level
	// maxBase32 is the longest run that is taken for base32. It is the encoding of
	// names and tokens, whose characters are also those of any long text.
	maxBase32 = 4 << 10
)

// decode scans everything that b decodes to.
func (s *search) decode(b []byte, depth int) {
	s.escapes(b, depth)
	s.hexRuns(b, depth)
	s.base32Runs(b, depth)
	s.base64Runs(b, depth)
	s.inflate(b, depth)
}

// escapes undoes percent, backslash and HTML escapes.
func (s *search) escapes(b []byte, depth int) {
	if !bytes.ContainsAny(b, `%\&`) {
		return
	}
	out := make([]byte, 0, len(b))
	changed := false
	for i := 0; i < len(b); {
		if c, n := unescape(b[i:]); n > 0 {
			out = append(out, c)
			i += n
			changed = true
			continue
		}
		out = append(out, b[i])
		i++
	}
	if changed {
		s.scan(out, depth)
	}
}

// unescape returns the byte that an escape at the start of b stands for, and the
// escape's length, 0 when there is none.
func unescape(b []byte) (c byte, n int) {
	switch {
	case len(b) >= 3 && b[0] == '%':
		return hexByte(b[1:3], 3)
	case len(b) >= 4 && b[0] == '\\' && b[1]|0x20 == 'x':
		return hexByte(b[2:4], 4)
	case len(b) >= 6 && b[0] == '\\' && b[1]|0x20 == 'u' && b[2] == '0' && b[3] == '0':
		return hexByte(b[4:6], 6)
	case len(b) >= 4 && b[0] == '&' && b[1] == '#':
		end := bytes.IndexByte(b[:min(len(b), 8)], ';')
		if end < 0 {
			return 0, 0
		}
		digits, base := string(b[2:end]), 10
		if digits != "" && digits[0]|0x20 == 'x' {
			digits, base = digits[1:], 16
		}
		v, err := strconv.ParseUint(digits, base, 7)
		if err != nil {
			return 0, 0
		}
		return byte(v), end + 1
	}
	return 0, 0
}

func hexByte(digits []byte, length int) (byte, int) {
	v, err := strconv.ParseUint(string(digits), 16, 8)
	if err != nil {
		return 0, 0
	}
	return byte(v), length
}

// hexRuns decodes runs of hexadecimal digits, with and without separators, at
// both alignments.
func (s *search) hexRuns(b []byte, depth int) {
	each(b, classHex, 2*nonce.Length, func(run []byte) { s.hexDecode(run, depth) })
	each(b, classHexSep, 3*nonce.Length-1, func(run []byte) {
		if digits := keep(run, classHex); len(digits) >= 2*nonce.Length && len(digits) != len(run) {
			s.hexDecode(digits, depth)
		}
	})
}

func (s *search) hexDecode(digits []byte, depth int) {
	for offset := range 2 {
		part := digits[offset:]
		part = part[:len(part)&^1]
		out := make([]byte, len(part)/2)
		if _, err := hex.Decode(out, part); err == nil {
			s.scan(out, depth)
		}
	}
}

var rawBase32 = base32.StdEncoding.WithPadding(base32.NoPadding)

// base32Runs decodes runs of base32 characters, in either case and over the
// dots of a name, at each alignment.
func (s *search) base32Runs(b []byte, depth int) {
	const least = nonce.Length * 8 / 5
	each(b, classBase32, least, func(run []byte) {
		if len(run) > maxBase32 {
			return
		}
		digits := bytes.ToUpper(bytes.ReplaceAll(run, []byte("."), nil))
		for offset := 0; offset < 8 && offset < len(digits); offset++ {
			part := digits[offset:]
			switch len(part) % 8 {
			case 1, 3, 6:
				part = part[:len(part)-1]
			}
			out := make([]byte, rawBase32.DecodedLen(len(part)))
			n, _ := rawBase32.Decode(out, part)
			s.scan(out[:n], depth)
		}
	})
}

// base64Runs decodes runs of base64 characters at each alignment, with line
// breaks taken out.
func (s *search) base64Runs(b []byte, depth int) {
	const least = (nonce.Length*4 + 2) / 3
	each(b, classBase64, least, func(run []byte) { s.base64Decode(run, depth) })
	each(b, classBase64Sep, least+1, func(run []byte) {
		if digits := keep(run, classBase64); len(digits) != len(run) {
			s.base64Decode(digits, depth)
		}
	})
}

func (s *search) base64Decode(digits []byte, depth int) {
	std := make([]byte, len(digits))
	for i, c := range digits {
		switch c {
		case '-':
			c = '+'
		case '_':
			c = '/'
		}
		std[i] = c
	}
	for offset := 0; offset < 4 && offset < len(std); offset++ {
		part := std[offset:]
		if len(part)%4 == 1 {
			part = part[:len(part)-1]
		}
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(part)))
		n, _ := base64.RawStdEncoding.Decode(out, part)
		s.scan(out[:n], depth)
	}
}

// inflate scans what follows each gzip or zlib header, as far as it goes.
func (s *search) inflate(b []byte, depth int) {
	tried := 0
	for at := 0; at+2 < len(b) && tried < maxMembers; at++ {
		var r io.Reader
		var err error
		switch {
		case b[at] == 0x1f && b[at+1] == 0x8b && b[at+2] == 8:
			r, err = gzip.NewReader(bytes.NewReader(b[at:]))
		case b[at] == 0x78 && (b[at+1] == 0x01 || b[at+1] == 0x5e || b[at+1] == 0x9c || b[at+1] == 0xda):
			r, err = zlib.NewReader(bytes.NewReader(b[at:]))
		default:
			continue
		}
		tried++
		if err == nil {
			// A damaged tail still leaves what came before it.
			out, _ := io.ReadAll(io.LimitReader(r, int64(min(maxInflate, max(s.budget, 0)))))
			s.scan(out, depth)
		}
	}
}

// each calls f for the maximal stretches of b, at least least long, whose bytes
// are all of a class.
func each(b []byte, in class, least int, f func([]byte)) {
	for at := 0; at+least <= len(b); {
		// A stretch that begins here must reach as far as least: look there first.
		end := at + least
		back := end - 1
		for back >= at && classes[b[back]]&in != 0 {
			back--
		}
		if back >= at {
			at = back + 1
			continue
		}
		for end < len(b) && classes[b[end]]&in != 0 {
			end++
		}
		f(b[at:end])
		at = end
	}
}

// class is a set of bytes; classes says which sets a byte is in.
type class uint8

const (
	classHex       class = 1 << iota // hexadecimal digits
	classHexSep                      // these and what separates them
	classBase32                      // base32 in either case, and the dots of a name
	classBase64                      // base64 in both alphabets
	classBase64Sep                   // these, line ends and dots
	classAlnum                       // letters in lower case and digits
)

var classes = func() (t [256]class) {
	const letters, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	add := func(c class, sets ...string) {
		for _, set := range sets {
			for i := range len(set) {
				t[set[i]] |= c
			}
		}
	}
	add(classHex|classHexSep, digits, letters[:6], upper[:6])
	add(classHexSep, " :-,.\n\r\t_")
	add(classBase32, letters, upper, digits[2:8], ".")
	add(classBase64|classBase64Sep, letters, upper, digits, "+/-_")
	add(classBase64Sep, "\r\n.")
	add(classAlnum, letters, digits)
	return t
}()

// keep returns the bytes of b that are of a class.
func keep(b []byte, in class) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if classes[c]&in != 0 {
			out = append(out, c)
		}
	}
	return out
}
