package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
)

const prevMember = `"prev":"`

// chainBuffer stays in a processor's second cache while it is hashed.
const chainBuffer = 128 << 10

// Chain checks nothing but the hash chain, at close to the speed of SHA-256 and
// in constant memory: that each line carries the hash of the line before. It
// returns the hash of the last line and the number of lines. It is for finding
// out quickly whether a large file was damaged; what it accepts may still be
// refused by a Reader, which checks the form of each line too.
func Chain(r io.Reader) (head string, count int64, err error) {
	in := bufio.NewReaderSize(r, chainBuffer)
	prev := make([]byte, 2*sha256.Size)
	var long []byte
	for ; ; count++ {
		line, err := in.ReadSlice('\n')
		if err != nil {
			if line, err = rest(in, &long, line, err); err != nil {
				if errors.Is(err, io.EOF) && len(line) == 0 && count > 0 {
					return string(prev), count, nil
				}
				return "", count, unread(err, count)
			}
		}
		line = line[:len(line)-1]
		if !carries(line, prev, count) {
			return "", count, &Error{Reason: ReasonChain, Line: count, Detail: "prev is not the SHA-256 of the line before"}
		}
		sum := sha256.Sum256(line)
		hex.Encode(prev, sum[:])
	}
}

// rest reads on a line that is longer than the buffer.
func rest(in *bufio.Reader, long *[]byte, line []byte, err error) ([]byte, error) {
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	*long = append((*long)[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) && len(*long) <= MaxLineBytes {
		line, err = in.ReadSlice('\n')
		*long = append(*long, line...)
	}
	return *long, err
}

// unread says why a line could not be read.
func unread(err error, line int64) error {
	switch {
	case errors.Is(err, io.EOF):
		return &Error{Reason: ReasonCutLine, Line: line}
	case errors.Is(err, bufio.ErrBufferFull):
		return &Error{Reason: ReasonTooLarge, Line: line}
	}
	return &Error{Reason: ReasonRead, Line: line, Err: err}
}

// carries reports whether a line's prev is the given hash. No string in the line
// can hold the text that is looked for, because the quotes in it would be
// escaped.
func carries(line, prev []byte, count int64) bool {
	if count == 0 {
		prev = []byte(Genesis)
	}
	// Members are sorted, so prev stands near the end of the long lines, behind
	// what was observed.
	const tail = 384
	if len(line) > tail && carriesIn(line[len(line)-tail:], prev) {
		return true
	}
	return carriesIn(line, prev)
}

// carriesIn looks for the member by the rarest of its letters: quotation marks, with
// which it begins, are everywhere.
func carriesIn(line, prev []byte) bool {
	const rare = 4 // prevMember[rare] is 'v'
	for at := 0; ; at++ {
		i := bytes.IndexByte(line[at:], prevMember[rare])
		if i < 0 {
			return false
		}
		at += i
		value := at - rare + len(prevMember)
		if at < rare || value+len(prev) >= len(line) || string(line[at-rare:value]) != prevMember {
			continue
		}
		if bytes.Equal(line[value:value+len(prev)], prev) && line[value+len(prev)] == '"' {
			return true
		}
	}
}
