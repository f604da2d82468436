package redact

import (
	"io"
	"sync"
)

// streamBuffer is how much a stream reads at once, beside what it holds back.
const streamBuffer = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, streamBuffer); return &b }}

// minTail is from how many bytes on the beginning of a secret at the very end
// of a stream is masked: somebody may have cut the text in the secret's middle.
const minTail = MinSecret

// Reader returns a reader of src with every occurrence masked, also those that
// lie across the borders of reads. It holds back only bytes that may be the
// beginning of a secret. When src fails what is held back is dropped.
func (r *Redactor) Reader(src io.Reader) *Reader { return NewLive(r).Reader(src) }

// Reader is Redactor.Reader with a Redactor that may be exchanged.
func (l *Live) Reader(src io.Reader) *Reader { return &Reader{src: src, live: l} }

// Reader masks what it reads from another reader.
type Reader struct {
	src   io.Reader
	live  *Live
	buf   []byte  // nil until needed
	box   *[]byte // the pooled buffer behind buf, if it is one
	ready int     // buf[out:ready] can be given out
	out   int
	end   int // buf[ready:end] is held back
	err   error
	found int64
	state progress
}

// Found returns how many occurrences were masked so far.
func (r *Reader) Found() int64 { return r.found }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for r.out == r.ready {
		if r.err != nil {
			r.release()
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.buf[r.out:r.ready])
	r.out += n
	return n, nil
}

func (r *Reader) fill() {
	r.makeRoom()
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	r.err = err
	if n == 0 && err == nil {
		return
	}
	red := r.live.Get()
	if err != nil {
		r.finish(red, err)
		return
	}
	if red.Empty() {
		r.ready, r.state.held = r.end, 0
		return
	}
	if r.state.waits(red, r.buf[r.end-n:r.end]) {
		return
	}
	found, hold := red.mask(r.buf[:r.end], &r.state)
	r.found += int64(found)
	r.ready = hold
}

func (r *Reader) finish(red *Redactor, err error) {
	if err != io.EOF {
		r.ready, r.end = 0, 0 // what is held back may be half a secret
		return
	}
	found, cut := red.last(r.buf[:r.end])
	r.found += int64(found + cut)
	r.ready = r.end
}

// Stream masks the occurrences in b, a piece of a longer text, in place. From
// hold on b may be the beginning of a secret: those bytes are left as they are
// and have to be given again, before what follows them. With end, b is the last
// piece and nothing is held back.
func (r *Redactor) Stream(b []byte, end bool) (found, hold int) {
	if r.Empty() || len(b) == 0 {
		return 0, len(b)
	}
	if end {
		found, cut := r.last(b)
		return found + cut, len(b)
	}
	return r.mask(b, new(progress))
}

// last masks the end of a text, with the beginning of a secret that it may end in.
func (r *Redactor) last(b []byte) (found, cut int) {
	if r.Empty() {
		return 0, 0
	}
	found, hold := r.mask(b, new(progress))
	if len(b)-hold >= minTail {
		fill(b[hold:])
		cut = 1
	}
	return found, cut
}

// Pieces masks a text that comes in pieces of which each has to go out before the
// next one comes, as messages of a WebSocket. Of a secret that is spread over pieces
// no more than its first bytes, too few to tell what they begin, are seen.
type Pieces struct {
	before []byte // what went out last, if a secret may begin in it
	state  progress
}

// Mask masks the occurrences in b, a part of a piece, in place. From hold on b may be
// the beginning of a secret: those bytes are left as they are and have to be given again,
// before what follows them. With end, b is the end of its piece, and nothing is held back.
func (p *Pieces) Mask(r *Redactor, b []byte, end bool) (found, hold int) {
	if r.Empty() {
		p.before, p.state.held = nil, 0
		return 0, len(b)
	}
	if len(b) == 0 {
		return 0, 0
	}
	k := len(p.before)
	if p.state.waits(r, b[p.state.held-k:]) {
		if !end {
			return 0, 0
		}
		p.before = append(p.before, b...)
		if len(p.before) >= minTail {
			fill(b)
			found = 1
		}
		return found, len(b)
	}
	text := b
	if k > 0 {
		text = append(p.before[:k:k], b...)
	}
	found, hold = r.mask(text, &p.state)
	if end {
		tail := append([]byte(nil), text[hold:]...)
		if len(tail) >= minTail {
			fill(text[hold:])
			found++
		}
		p.before, hold = tail, len(text)
	} else {
		p.before = p.before[min(hold, k):]
	}
	if k > 0 {
		copy(b, text[k:])
	}
	return found, max(0, hold-k)
}

// makeRoom moves what is held back to the front and makes sure that there is
// room behind it.
func (r *Reader) makeRoom() {
	if r.buf == nil {
		r.box = buffers.Get().(*[]byte)
		r.buf = *r.box
	}
	if r.ready > 0 {
		copy(r.buf, r.buf[r.ready:r.end])
	}
	r.end -= r.ready
	r.ready, r.out = 0, 0
	if r.end > len(r.buf)/2 {
		bigger := make([]byte, 2*len(r.buf))
		copy(bigger, r.buf[:r.end])
		r.release()
		r.buf = bigger
	}
}

// Close gives the buffer back. It does not close the source, and the Reader is
// of no use afterwards.
func (r *Reader) Close() {
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	r.ready, r.end, r.out = 0, 0, 0
	r.release()
}

func (r *Reader) release() {
	if r.box != nil {
		buffers.Put(r.box)
		r.box, r.buf = nil, nil
	}
}

// Writer returns a writer that masks what it passes on to dst. Close flushes
// what it holds back; it does not close dst.
func (r *Redactor) Writer(dst io.Writer) *Writer { return NewLive(r).Writer(dst) }

// Writer is Redactor.Writer with a Redactor that may be exchanged.
func (l *Live) Writer(dst io.Writer) *Writer { return &Writer{dst: dst, live: l} }

// Writer masks what it passes on to another writer.
type Writer struct {
	dst   io.Writer
	live  *Live
	buf   []byte // held back
	found int64
	state progress
}

// Found returns how many occurrences were masked so far.
func (w *Writer) Found() int64 { return w.found }

// Write implements io.Writer. It does not change p.
func (w *Writer) Write(p []byte) (int, error) {
	for off := 0; off < len(p); {
		part := p[off:min(off+streamBuffer, len(p))]
		off += len(part)
		w.buf = append(w.buf, part...)
		red := w.live.Get()
		found, hold := 0, len(w.buf)
		switch {
		case red.Empty():
			w.state.held = 0
		case w.state.waits(red, part):
			continue
		default:
			found, hold = red.mask(w.buf, &w.state)
		}
		w.found += int64(found)
		if _, err := w.dst.Write(w.buf[:hold]); err != nil {
			return off, err
		}
		w.buf = append(w.buf[:0], w.buf[hold:]...)
	}
	return len(p), nil
}

// Close flushes what is held back.
func (w *Writer) Close() error {
	found, cut := w.live.Get().last(w.buf)
	w.found += int64(found + cut)
	_, err := w.dst.Write(w.buf)
	w.buf = nil
	return err
}
