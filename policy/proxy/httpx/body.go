package httpx

import (
	"bufio"
	"io"
	"strings"
)

// Body reads a message's body from its connection. It is reusable by Reset.
type Body struct {
	br      *bufio.Reader
	lim     Limits
	left    int64 // of the body or chunk
	mode    int64 // Chunked, UntilClose, or 0 for a counted body
	lenient bool  // chunk extensions are skipped instead of refused
	started bool
	done    bool
	err     error
	trailer Header
}

// Reset makes b read a body of the given length. lenient skips chunk
// extensions, as a client has to; a server refuses them.
func (b *Body) Reset(br *bufio.Reader, length int64, lim Limits, lenient bool) {
	*b = Body{br: br, lim: lim, lenient: lenient}
	switch {
	case length >= 0:
		b.left, b.done = length, length == 0
	default:
		b.mode = length
	}
}

// Done says whether the body was read to its end.
func (b *Body) Done() bool { return b.done }

// Trailer returns the trailer fields, once Read has returned io.EOF.
func (b *Body) Trailer() Header { return b.trailer }

// Buffered says how many bytes of the body can be read without waiting.
func (b *Body) Buffered() int {
	if b.done {
		return 0
	}
	if b.mode == UntilClose {
		return b.br.Buffered()
	}
	return int(min(b.left, int64(b.br.Buffered())))
}

// Read implements io.Reader. An *Error or io.ErrUnexpectedEOF is final.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.done {
		return 0, io.EOF
	}
	n, err := b.read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

func (b *Body) read(p []byte) (int, error) {
	if b.mode == UntilClose {
		n, err := b.br.Read(p)
		b.done = err == io.EOF
		return n, err
	}
	if b.mode == Chunked && b.left == 0 {
		if err := b.nextChunk(); err != nil || b.done {
			if b.done {
				return 0, io.EOF
			}
			return 0, err
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.br.Read(p)
	b.left -= int64(n)
	if err == io.EOF {
		return n, io.ErrUnexpectedEOF
	}
	if b.left == 0 && b.mode == 0 {
		b.done = true
	}
	return n, err
}

// maxChunkLine bounds a chunk's size line, extension included.
const maxChunkLine = 256

// nextChunk reads the CRLF that ends the last chunk, the next size line, and,
// after the last chunk, the trailers.
func (b *Body) nextChunk() error {
	if b.started {
		if err := b.expectCRLF(); err != nil {
			return err
		}
	}
	b.started = true
	line, err := b.line(maxChunkLine)
	if err != nil {
		return err
	}
	size, ok := b.parseSize(line)
	if !ok {
		return refuse(400, ReasonChunk, "malformed chunk size")
	}
	b.left = size
	if size > 0 {
		return nil
	}
	return b.readTrailer()
}

func (b *Body) expectCRLF() error {
	var crlf [2]byte
	if _, err := io.ReadFull(b.br, crlf[:]); err != nil {
		return unexpected(err)
	}
	if crlf != [2]byte{'\r', '\n'} {
		return refuse(400, ReasonChunk, "chunk that does not end in CRLF")
	}
	return nil
}

func (b *Body) line(limit int) (string, error) {
	line, err := b.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull || len(line) > limit {
		return "", refuse(400, ReasonChunk, "chunk line that is too long")
	}
	if err != nil {
		return "", unexpected(err)
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return "", refuse(400, ReasonChunk, "chunk line that does not end in CRLF")
	}
	return string(line[:len(line)-2]), nil
}

// maxSizeDigits keeps a chunk's size far from overflow: 1 TiB.
const maxSizeDigits = 10

func (b *Body) parseSize(line string) (int64, bool) {
	digits := line
	if i := strings.IndexByte(line, ';'); i >= 0 && b.lenient {
		digits = strings.TrimRight(line[:i], " \t")
		if !IsFieldValue(line[i:]) {
			return 0, false
		}
	}
	if digits == "" || len(digits) > maxSizeDigits {
		return 0, false
	}
	var n int64
	for i := 0; i < len(digits); i++ {
		d := hexValue(digits[i])
		if d < 0 {
			return 0, false
		}
		n = n<<4 | int64(d)
	}
	return n, true
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// readTrailer reads the trailer section and ends the body. Fields that frame
// or route a message are refused there (RFC 9110, section 6.5.1).
func (b *Body) readTrailer() error {
	var head strings.Builder
	for {
		line, err := b.line(b.lim.HeadBytes)
		if err != nil {
			return err
		}
		if head.Len()+len(line)+2 > b.lim.HeadBytes {
			return refuse(431, ReasonHeadTooLarge, "trailers larger than allowed")
		}
		head.WriteString(line)
		head.WriteString("\r\n")
		if line == "" {
			break
		}
	}
	fields, e := parseFields(head.String(), b.lim, nil)
	if e != nil {
		return e
	}
	for _, f := range fields {
		if ForbiddenTrailer(f.Name) {
			return refuse(400, ReasonChunk, "trailer field that belongs into the head")
		}
	}
	b.trailer, b.done = fields, true
	return nil
}

// ForbiddenTrailer says whether a field frames, routes or describes a message and
// so may not stand behind its body (RFC 9110, section 6.5.1).
func ForbiddenTrailer(name string) bool {
	switch strings.ToLower(name) {
	case "host", "authorization", "cookie", "set-cookie", "content-encoding", "content-type", "content-range":
		return true
	}
	return isHopByHop(name)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
