package proxy

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// webSocketGUID is RFC 6455's.
const webSocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// upgrade relays a WebSocket after the upstream agreed to it. Frames from the
// upstream are read and their payload is masked; lengths do not change.
func (x *session) upgrade(q *request, resp *response, ev *Event) {
	defer resp.release(false)
	if ref := checkAccept(q, resp.header); ref != nil {
		x.refuse(ev, ref, "")
		return
	}
	ev.Status = 101
	httpx.WriteStatusLine(x.bw, 101)
	httpx.WriteFields(x.bw, resp.header)
	x.bw.WriteString("\r\n")
	if x.bw.Flush() != nil {
		return
	}
	ev.Route = RouteDirect
	if x.scheme == "https" {
		ev.Route = RouteIntercept
	}
	x.o.s.allowed(ev)
	up, down, masked := x.relayFrames(resp.stream)
	ev.Redacted += masked
	x.o.s.closed(*ev, up, down)
}

// checkAccept makes sure that the other side is a WebSocket server that
// answers this very request, and not one whose 101 opens an unread tunnel.
func checkAccept(q *request, h httpx.Header) *refusal {
	sum := sha1.Sum([]byte(q.header.Get("Sec-WebSocket-Key") + webSocketGUID))
	switch {
	case !q.websocket,
		h.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]),
		!strings.EqualFold(h.Get("Upgrade"), "websocket"), !h.HasToken("Connection", "upgrade"),
		h.Has("Sec-WebSocket-Extensions"): // none was asked for
		return deny(502, ReasonUpstreamResponse)
	}
	return nil
}

// relayFrames copies both directions until both have ended.
func (x *session) relayFrames(up net.Conn) (sent, got, masked int64) {
	stop := context.AfterFunc(x.o.ctx, func() { _ = up.Close() })
	defer stop()
	var wg sync.WaitGroup
	client := &bufferedConn{x.rw, x.br}
	wg.Go(func() {
		sent = copyHalf(up, client)
	})
	fr := frameRelay{dst: x.rw, live: x.o.s.live}
	if err := fr.run(up); !errors.Is(err, io.EOF) {
		_ = up.Close()
		_ = x.c.Close()
	} else {
		x.closeWrite()
	}
	wg.Wait()
	return sent, fr.bytes, fr.masked
}

// frameRelay passes WebSocket frames on (RFC 6455, section 5.2), masking
// secrets in their payload, also where one lies across the fragments of a message or
// across messages. Control frames may come between fragments.
type frameRelay struct {
	dst    io.Writer
	live   *redact.Live
	bytes  int64
	masked int64
	text   []byte // payload that is held back, of the message so far
	data   redact.Pieces
	aside  redact.Pieces // control frames
	queue  []byte        // what is to be written once it is decided, headers included
	marks  []mark        // where in queue the bytes of text lie
}

// mark says that n bytes of held-back text lie at queue[at:].
type mark struct{ at, n int }

// Frame bits.
const (
	finBit     = 0x80
	rsvBits    = 0x70
	opBits     = 0x0f
	maskBit    = 0x80
	opControl  = 0x08
	framePiece = 16 << 10
	// maxAside bounds what is queued beside the text that is held back: headers of
	// fragments, control frames.
	maxAside = 64 << 10
)

var (
	errFrame = errors.New("malformed WebSocket frame")
	errAside = errors.New("more WebSocket frames than are kept behind held-back text")
)

// run passes frames on until src ends, with io.EOF, or fails.
func (f *frameRelay) run(src io.Reader) error {
	for {
		fin, control, size, err := f.header(src)
		if err != nil {
			return err
		}
		for size > 0 {
			piece := make([]byte, min(size, framePiece))
			n, err := src.Read(piece)
			size -= int64(n)
			if n > 0 {
				if err := f.payload(piece[:n], control, fin && size == 0); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
		}
		if fin && !control {
			if err := f.flush(true); err != nil {
				return err
			}
		}
	}
}

// header reads and queues a frame's header. A server's frame is not masked and
// has no reserved bits, as no extension was agreed.
func (f *frameRelay) header(src io.Reader) (fin, control bool, size int64, err error) {
	var h [10]byte
	if _, err = io.ReadFull(src, h[:2]); err != nil {
		return
	}
	if h[0]&rsvBits != 0 || h[1]&maskBit != 0 {
		return false, false, 0, errFrame
	}
	n := 2
	size = int64(h[1] & 0x7f)
	switch size {
	case 126:
		n = 4
	case 127:
		n = 10
	}
	if _, err = io.ReadFull(src, h[2:n]); err != nil {
		return
	}
	switch n {
	case 4:
		size = int64(binary.BigEndian.Uint16(h[2:]))
	case 10:
		size = int64(binary.BigEndian.Uint64(h[2:]))
	}
	fin, control = h[0]&finBit != 0, h[0]&opBits&opControl != 0
	if size < 0 || control && (!fin || size > 125) {
		return false, false, 0, errFrame
	}
	f.queue = append(f.queue, h[:n]...)
	if len(f.queue)-len(f.text) > maxAside {
		return false, false, 0, errAside
	}
	if size == 0 && len(f.text) == 0 {
		err = f.flush(false)
	}
	return fin, control, size, err
}

// payload queues a piece of payload and writes what is decided.
func (f *frameRelay) payload(p []byte, control, last bool) error {
	if control {
		n, _ := f.aside.Mask(f.live.Get(), p, true)
		f.masked += int64(n)
		f.queue = append(f.queue, p...)
		if len(f.text) == 0 {
			return f.flush(false)
		}
		return nil
	}
	if n := len(f.marks); n > 0 && f.marks[n-1].at+f.marks[n-1].n == len(f.queue) {
		f.marks[n-1].n += len(p)
	} else {
		f.marks = append(f.marks, mark{len(f.queue), len(p)})
	}
	f.queue = append(f.queue, p...)
	f.text = append(f.text, p...)
	return f.flush(last)
}

// flush masks the text and writes the queue up to where text is held back. At
// the end of a message nothing is held back.
func (f *frameRelay) flush(end bool) error {
	found, hold := f.data.Mask(f.live.Get(), f.text, end)
	f.masked += int64(found)
	if hold == 0 && !end && len(f.marks) > 0 && f.marks[0].at == 0 {
		return nil // nothing is decided
	}
	f.restore()
	upto := len(f.queue)
	if hold < len(f.text) {
		upto = f.position(hold)
	}
	if upto > 0 {
		n, err := f.dst.Write(f.queue[:upto])
		f.bytes += int64(n)
		if err != nil {
			return err
		}
	}
	f.drop(upto, hold)
	return nil
}

// restore copies the masked text back into the queue.
func (f *frameRelay) restore() {
	t := f.text
	for _, m := range f.marks {
		copy(f.queue[m.at:m.at+m.n], t[:m.n])
		t = t[m.n:]
	}
}

// position finds the place in the queue of the text's byte at off.
func (f *frameRelay) position(off int) int {
	for _, m := range f.marks {
		if off < m.n {
			return m.at + off
		}
		off -= m.n
	}
	return len(f.queue)
}

// drop removes what was written.
func (f *frameRelay) drop(upto, hold int) {
	var kept []mark
	for _, m := range f.marks {
		switch {
		case m.at >= upto:
			kept = append(kept, mark{m.at - upto, m.n})
		case m.at+m.n > upto:
			kept = append(kept, mark{0, m.at + m.n - upto})
		}
	}
	f.marks = kept
	f.queue = append(f.queue[:0], f.queue[upto:]...)
	f.text = append(f.text[:0], f.text[hold:]...)
}
