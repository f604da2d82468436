package host

import "unicode"

// foldRune returns one representative of the characters that differ from r only
// in case (Unicode's simple folding; the Kelvin sign is a k). For ASCII letters
// it is the lower-case one.
func foldRune(r rune) rune {
	if r < 0x80 {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f < least {
			least = f
		}
	}
	if 'A' <= least && least <= 'Z' {
		return least + 'a' - 'A'
	}
	return least
}
