package redact

import (
	"bufio"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Bounds of decoding.
const (
	maxCodings    = 3       // applied one over another
	maxZstdWindow = 8 << 20 // RFC 8878: what a decoder should support
)

// ErrCoding: a content coding that cannot be looked into.
var ErrCoding = errors.New("unknown content coding")

// Codings are the content codings that Decode knows, as for Accept-Encoding.
const Codings = "gzip, deflate, br, zstd"

// Knows says whether Decode knows a single coding.
func Knows(coding string) bool {
	switch coding {
	case "identity", "gzip", "x-gzip", "deflate", "br", "zstd":
		return true
	}
	return false
}

// Decode undoes the codings of a Content-Encoding field, the last one first.
// Its memory is bounded whatever src holds. Close releases the decoders; it
// does not close src.
func Decode(contentEncoding string, src io.Reader) (io.ReadCloser, error) {
	d := &decoder{Reader: src}
	codings := strings.Split(contentEncoding, ",")
	if len(codings) > maxCodings {
		return nil, fmt.Errorf("%w: %d codings one over another", ErrCoding, len(codings))
	}
	for i := len(codings) - 1; i >= 0; i-- {
		if err := d.add(strings.ToLower(strings.TrimSpace(codings[i]))); err != nil {
			_ = d.Close()
			return nil, err
		}
	}
	return d, nil
}

type decoder struct {
	io.Reader
	closers []func()
}

func (d *decoder) Close() error {
	for _, c := range d.closers {
		c()
	}
	d.closers = nil
	return nil
}

func (d *decoder) add(coding string) error {
	switch coding {
	case "identity", "":
	case "gzip", "x-gzip":
		d.Reader = &lazy{src: d.Reader, open: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }}
	case "deflate":
		d.Reader = &lazy{src: d.Reader, open: openDeflate}
	case "br":
		d.Reader = brotli.NewReader(d.Reader)
	case "zstd":
		z, err := zstd.NewReader(d.Reader, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return fmt.Errorf("open zstd: %w", err)
		}
		d.Reader = z
		d.closers = append(d.closers, z.Close)
	default:
		return fmt.Errorf("%w %.40q", ErrCoding, coding)
	}
	return nil
}

// lazy opens a decoder with the first read: opening it reads from the source,
// which may have nothing yet.
type lazy struct {
	src  io.Reader
	open func(io.Reader) (io.Reader, error)
	r    io.Reader
	err  error
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.r == nil && l.err == nil {
		br := bufio.NewReader(l.src)
		if _, err := br.Peek(1); err != nil {
			l.err = err // an empty body is empty in any coding
			return 0, err
		}
		l.r, l.err = l.open(br)
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.r.Read(p)
}

// openDeflate accepts both that the field means (RFC 9110, section 8.4.1.2):
// zlib, and the bare deflate that some servers send.
func openDeflate(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, err := br.Peek(2)
	if err == nil && head[0]&0x0f == 8 && (uint16(head[0])<<8|uint16(head[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}
