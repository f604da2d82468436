package manifest

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/wallproof/wallproof/internal/canon"
)

// Line is one line of a manifest that has passed every check of its form and of
// its place in the chain. Raw, without LF, is valid until the next call of Next.
type Line struct {
	Seq  int64
	Type string
	Raw  []byte
}

// Reader reads a manifest strictly and in constant memory.
type Reader struct {
	src  io.Reader
	in   *bufio.Reader
	long []byte // a line longer than the buffer
	seq  int64  // of the next line
	prev [2 * sha256.Size]byte
	tree Tree
	last string // type of the last line
	err  error
}

// readBuffer is a compromise between system calls and memory.
const readBuffer = 256 << 10

// BufferFor is how many bytes of buffer a reader of r needs, at most most: less
// where r knows how much it holds.
func BufferFor(r io.Reader, most int) int {
	if known, ok := r.(interface{ Len() int }); ok {
		return min(known.Len()+1, most)
	}
	return most
}

// NewReader returns a Reader on r. When r can also seek, and only after an
// error, it is read once more from the start to name the error precisely.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: r, in: bufio.NewReaderSize(r, BufferFor(r, readBuffer))}
}

// Next returns the next line, io.EOF after the terminal entry of a complete
// manifest, or an *Error. After an error it returns the same error for ever.
func (r *Reader) Next() (Line, error) {
	if r.err != nil {
		return Line{}, r.err
	}
	l, err := r.next()
	if err != nil {
		r.err = err
	}
	return l, err
}

// Summary returns what the statement carries. It is complete only after Next
// has returned io.EOF, and zero before.
func (r *Reader) Summary() Summary {
	if !errors.Is(r.err, io.EOF) {
		return Summary{}
	}
	return Summary{Head: string(r.prev[:]), Count: r.seq, MerkleRoot: r.tree.Root().String()}
}

func (r *Reader) next() (Line, error) {
	raw, err := r.readLine()
	if err != nil {
		return Line{}, err
	}
	if r.last == TypeTerminal {
		return Line{}, r.fault(ReasonAfterTerminal, "")
	}
	h, err := parseHeader(raw)
	if err != nil {
		return Line{}, lineError(r.seq, err)
	}
	if err := r.place(raw, h); err != nil {
		return Line{}, err
	}
	if err := r.typed(raw, h); err != nil {
		return Line{}, err
	}
	sum := sha256.Sum256(raw)
	hex.Encode(r.prev[:], sum[:])
	r.tree.Append(raw)
	r.seq++
	r.last = h.typ
	return Line{Seq: h.seq, Type: h.typ, Raw: raw}, nil
}

func (r *Reader) fault(reason Reason, detail string) error {
	return &Error{Reason: reason, Line: r.seq, Detail: detail}
}

// readLine returns the next line without its LF, or io.EOF at the proper end.
func (r *Reader) readLine() ([]byte, error) {
	raw, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		raw, err = r.readLong(raw)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, r.end(len(raw))
	default:
		var fault *Error
		if errors.As(err, &fault) {
			return nil, err
		}
		return nil, &Error{Reason: ReasonRead, Line: r.seq, Err: err}
	}
	if r.seq >= MaxLines {
		return nil, r.fault(ReasonTooLarge, fmt.Sprintf("more than %d lines", MaxLines))
	}
	return raw[:len(raw)-1], nil
}

func (r *Reader) readLong(head []byte) ([]byte, error) {
	r.long = append(r.long[:0], head...)
	for {
		raw, err := r.in.ReadSlice('\n')
		r.long = append(r.long, raw...)
		if len(r.long) > MaxLineBytes {
			return nil, r.fault(ReasonTooLarge, fmt.Sprintf("a line of more than %d bytes", MaxLineBytes))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return r.long, err
		}
	}
}

// end judges the end of the input, with n bytes of an unfinished line.
func (r *Reader) end(n int) error {
	switch {
	case n > 0:
		return r.fault(ReasonCutLine, "the last line has no line feed: the run was cut short")
	case r.seq == 0:
		return r.fault(ReasonEmpty, "")
	case r.last != TypeTerminal:
		return r.fault(ReasonIncomplete, "no terminal entry: the run was cut short or lines were taken off the end")
	}
	return io.EOF
}

// header is what every line has.
type header struct {
	seq       int64
	prev, typ string
	schema    string
	head      string
	count     int64
}

var lineLimits = canon.Limits{Bytes: MaxLineBytes, Depth: MaxLineDepth}

func parseHeader(raw []byte) (header, error) {
	h := header{seq: -1, count: -1}
	object := len(raw) > 0 && raw[0] == '{'
	err := canon.CheckMembers(raw, lineLimits, func(name, value []byte) {
		switch string(name) {
		case "seq":
			h.seq = number(value)
		case "count":
			h.count = number(value)
		case "prev":
			h.prev = text(value)
		case "type":
			h.typ = text(value)
		case "schema":
			h.schema = text(value)
		case "head":
			h.head = text(value)
		}
	})
	if err != nil {
		return h, err
	}
	if !object || h.seq < 0 || h.prev == "" || h.typ == "" {
		return h, &canon.Error{Reason: canon.ReasonMissingMember, Detail: "every line is an object with seq, prev and type"}
	}
	return h, nil
}

// number reads a checked canonical integer; anything else gives −1.
func number(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// text reads a string without escapes, as every value that is compared here is
// written; anything else gives "".
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	return string(value[1 : len(value)-1])
}

// place checks seq and prev.
func (r *Reader) place(raw []byte, h header) error {
	switch {
	case h.seq > r.seq:
		return r.gap()
	case h.seq < r.seq:
		return r.extra(raw)
	case h.seq == 0 && h.prev != Genesis:
		return r.fault(ReasonGenesis, "prev of line 0 must be "+Genesis)
	case h.seq > 0 && h.prev != string(r.prev[:]):
		return r.fault(ReasonChain, "prev is not the SHA-256 of the line before")
	}
	return nil
}

// typed checks the order of types, and what only entry 0 and the terminal have.
func (r *Reader) typed(raw []byte, h header) error {
	if (h.seq == 0) != (h.typ == TypeRun) {
		return r.fault(ReasonType, fmt.Sprintf("an entry of type %.32q at line %d", h.typ, h.seq))
	}
	switch h.typ {
	case TypeRun:
		if h.schema != Schema {
			return r.fault(ReasonSchema, fmt.Sprintf("schema %.64q, this version reads %q", h.schema, Schema))
		}
	case TypeTechnique:
	case TypeTerminal:
		if h.head != h.prev {
			return r.fault(ReasonTerminalHead, "")
		}
		if h.count != h.seq+1 {
			return r.fault(ReasonTerminalCount, fmt.Sprintf("count %d, lines %d", h.count, h.seq+1))
		}
	default:
		return r.fault(ReasonType, fmt.Sprintf("unknown type %.32q", h.typ))
	}
	return nil
}
