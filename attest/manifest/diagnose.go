package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"
)

// gap names the reason of a line whose number is too high: the expected one
// comes later (reordered) or not at all (taken out).
func (r *Reader) gap() error {
	want := r.seq
	found := false
	r.rescan(func(raw []byte) bool {
		h, err := parseHeader(raw)
		found = err == nil && h.seq == want
		return !found
	})
	if found {
		return r.fault(ReasonReordered, "the line with this number stands further down")
	}
	return r.fault(ReasonMissing, "the line with this number is not there")
}

// extra names the reason of a line whose number was there before: the same
// bytes again (a duplicate) or others (an insertion before or here).
func (r *Reader) extra(raw []byte) error {
	want := sha256.Sum256(raw)
	left := r.seq // lines before this one
	found := false
	r.rescan(func(earlier []byte) bool {
		if left == 0 {
			return false
		}
		left--
		found = sha256.Sum256(earlier) == want
		return !found
	})
	if found {
		return r.fault(ReasonDuplicate, "the same line stands further up")
	}
	return r.fault(ReasonInserted, "another line has this number already")
}

// rescan reads the input again from the start, if it can seek, and calls fn with
// each line until it returns false. It runs only on the way to an error, so that
// the reader needs no memory of what it has read.
func (r *Reader) rescan(fn func(raw []byte) bool) {
	seeker, ok := r.src.(io.Seeker)
	if !ok {
		return
	}
	if _, err := seeker.Seek(0, io.SeekStart); err != nil {
		return
	}
	sc := bufio.NewScanner(r.src)
	sc.Buffer(make([]byte, 0, 64<<10), MaxLineBytes+1)
	sc.Split(splitLF)
	for sc.Scan() {
		if !fn(sc.Bytes()) {
			return
		}
	}
}

// splitLF splits at LF only; a CR belongs to its line.
func splitLF(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
