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

// Chain checks nothing but the hash chain, at close to the speed of SHA-256 and
// in constant memory: that each line carries the hash of the line before. It
// returns the hash of the last line and the number of lines. It is for finding
// out quickly whether a large file was damaged; what it accepts may still be
// refused by a Reader, which checks the form of each line too.
func Chain(r io.Reader) (head string, count int64, err error) {
	in := bufio.NewReaderSize(r, readBuffer)
	prev := make([]byte, 2*sha256.Size)
	var long []byte
	for ; ; count++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], line...)
			for errors.Is(err, bufio.ErrBufferFull) && len(long) <= MaxLineBytes {
				line, err = in.ReadSlice('\n')
				long = append(long, line...)
			}
			line = long
		}
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && count > 0:
			return string(prev), count, nil
		case errors.Is(err, io.EOF):
			return "", count, &Error{Reason: ReasonCutLine, Line: count}
		case errors.Is(err, bufio.ErrBufferFull):
			return "", count, &Error{Reason: ReasonTooLarge, Line: count}
		case err != nil:
			return "", count, &Error{Reason: ReasonRead, Line: count, Err: err}
		}
		line = line[:len(line)-1]
		if !carries(line, prev, count) {
			return "", count, &Error{Reason: ReasonChain, Line: count, Detail: "prev is not the SHA-256 of the line before"}
		}
		sum := sha256.Sum256(line)
		hex.Encode(prev, sum[:])
	}
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

func carriesIn(line, prev []byte) bool {
	for {
		i := bytes.Index(line, []byte(prevMember))
		if i < 0 {
			return false
		}
		line = line[i+len(prevMember):]
		if len(line) > len(prev) && bytes.Equal(line[:len(prev)], prev) && line[len(prev)] == '"' {
			return true
		}
	}
}
