package proxy

import (
	"errors"
	"io"

	"github.com/wallproof/wallproof/policy"
)

// errPin breaks a response off: the artefact is not the one that is pinned.
var errPin = errors.New("artefact is not pinned")

// pinHold is how much of an artefact is held back until it was hashed. A client
// never gets the end of one that is not pinned.
const pinHold = 64 << 10

// askWhole takes out of a request what would be answered by a part of an artefact,
// or by another form of it, which no digest is of.
func askWhole(q *request) {
	for _, name := range []string{"Range", "If-Range", "A-IM", "Available-Dictionary"} {
		q.header.Del(name)
	}
	if q.header.Has("Accept-Encoding") {
		q.header.Set("Accept-Encoding", "identity")
	}
}

// holdToPin makes a response break off before its end unless its body is one of
// the pinned artefacts.
func (o *origin) holdToPin(pin *policy.Pin, q *request, resp *response) *refusal {
	switch {
	case resp.body == nil || resp.status >= 300 || !pin.Covers(q.path):
		return nil
	case resp.status == 206: // nobody asked for a part
		return deny(502, ReasonPin)
	}
	p := &pinReader{src: resp.body, check: pin.Verifier(), budget: o.s.heavy}
	resp.body, resp.ended, resp.late, resp.slow = p, nil, nil, false
	release := resp.release
	resp.release = func(whole bool) {
		p.budget.Release(p.kept)
		release(whole)
	}
	return nil
}

type pinReader struct {
	src    io.Reader
	check  *policy.Verifier
	budget budget
	kept   int64 // taken from the budget
	held   []byte
	ready  int // of held, may be given out
	err    error
}

func (p *pinReader) Read(b []byte) (int, error) {
	for p.ready == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.fill()
	}
	n := copy(b, p.held[:p.ready])
	p.held = p.held[n:]
	p.ready -= n
	return n, nil
}

func (p *pinReader) fill() {
	buf := make([]byte, pinHold)
	n, err := p.src.Read(buf)
	if p.check.Keeps() {
		if !p.budget.TryAcquire(int64(n)) {
			p.ready, p.held, p.err = 0, nil, errPin // too many large modules at once: none is verified
			return
		}
		p.kept += int64(n)
	}
	_, _ = p.check.Write(buf[:n])
	p.held = append(p.held, buf[:n]...)
	// The last byte waits for the hash, however short the artefact is.
	p.ready = max(0, len(p.held)-pinHold)
	switch {
	case err == io.EOF && p.check.Verified():
		p.ready, p.err = len(p.held), io.EOF
	case err == io.EOF:
		p.ready, p.held, p.err = 0, nil, errPin
	case err != nil:
		p.ready, p.held, p.err = 0, nil, err
	}
}
