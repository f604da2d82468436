package gvisor

import (
	"encoding/binary"
	"io"
	"sync"
)

// framer reads a source as the copy-in helper's frames. When the source fails
// the last frame never comes, so that the helper leaves its target alone.
type framer struct {
	src  io.Reader
	buf  [copyFrame]byte
	rest []byte
	done bool

	mu  sync.Mutex
	err error
}

// Read implements io.Reader.
func (f *framer) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		if f.done {
			return 0, io.EOF
		}
		f.fill()
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	if n == 0 && f.done {
		return 0, io.EOF
	}
	return n, nil
}

// fill reads one frame's worth. A short read is a frame of its own, so that
// nothing waits.
func (f *framer) fill() {
	const head = 4
	n, err := 0, error(nil)
	for n == 0 && err == nil {
		n, err = f.src.Read(f.buf[head:])
	}
	f.rest = nil
	if n > 0 {
		binary.BigEndian.PutUint32(f.buf[:], uint32(n))
		f.rest = f.buf[:head+n]
	}
	switch {
	case err == io.EOF:
		f.done = true
		f.rest = binary.BigEndian.AppendUint32(f.rest, 0)
	case err != nil:
		f.done = true
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
	}
}

// failed is the source's error, if it had one.
func (f *framer) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// limitedWriter keeps the first n bytes and swallows the rest.
type limitedWriter struct {
	w io.Writer
	n int
}

// Write implements io.Writer. It never fails for being full.
func (l *limitedWriter) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.n)]
	l.n -= len(keep)
	if _, err := l.w.Write(keep); err != nil {
		return 0, err
	}
	return len(p), nil
}
