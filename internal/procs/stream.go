package procs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// message is one line of a child's standard output.
type message struct {
	Ready json.RawMessage `json:"ready,omitempty"`
	Error *string         `json:"error,omitempty"`
	Event json.RawMessage `json:"event,omitempty"`
}

func (m message) kinds() int {
	n := 0
	for _, set := range []bool{m.Ready != nil, m.Error != nil, m.Event != nil} {
		if set {
			n++
		}
	}
	return n
}

// parseMessage reads one line: exactly one of the three keys, and no other.
func parseMessage(line []byte) (message, error) {
	var m message
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return message{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return message{}, errors.New("more than one value on a line")
	}
	if m.kinds() != 1 {
		return message{}, errors.New("exactly one of ready, error and event is wanted")
	}
	return m, nil
}

// read takes in the child's standard output to its end. After a fault it kills
// the child and goes on reading, so that the child never hangs on a full pipe.
func (p *Proc) read(r io.Reader, onEvent func(json.RawMessage)) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), MaxLine)
	for sc.Scan() {
		m, err := parseMessage(sc.Bytes())
		if err == nil {
			err = p.take(m, onEvent)
		}
		if err != nil {
			p.fail(err)
			break
		}
	}
	if err := sc.Err(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		p.fail(fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	_, _ = io.Copy(io.Discard, r)
}

func (p *Proc) take(m message, onEvent func(json.RawMessage)) error {
	p.mu.Lock()
	wasReady := p.readyMsg != nil
	p.mu.Unlock()
	switch {
	case m.Error != nil:
		return errors.New(*m.Error)
	case m.Ready != nil && wasReady:
		return fmt.Errorf("%w: ready twice", ErrProtocol)
	case m.Ready != nil:
		p.mu.Lock()
		p.readyMsg = bytes.Clone(m.Ready)
		p.mu.Unlock()
		close(p.ready)
	case !wasReady:
		return fmt.Errorf("%w: event before ready", ErrProtocol)
	case onEvent != nil:
		onEvent(bytes.Clone(m.Event))
	}
	return nil
}

func (p *Proc) fail(err error) {
	p.mu.Lock()
	if p.fault == nil {
		p.fault = err
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill()
}

// headTail keeps the beginning and the end of what is written to it.
type headTail struct {
	mu   sync.Mutex
	head []byte
	tail []byte
	lost int64
}

// Write never fails: what does not fit is dropped from the middle.
func (h *headTail) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(b)
	if room := maxStderrHead - len(h.head); room > 0 {
		take := min(room, len(b))
		h.head = append(h.head, b[:take]...)
		b = b[take:]
	}
	h.tail = append(h.tail, b...)
	if over := len(h.tail) - maxStderrTail; over > 0 {
		h.lost += int64(over)
		h.tail = append(h.tail[:0], h.tail[over:]...)
	}
	return n, nil
}

// String is the text kept, with a note of what was left out.
func (h *headTail) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	b.Write(h.head)
	if h.lost > 0 {
		fmt.Fprintf(&b, "\n… %d bytes left out …\n", h.lost)
	}
	b.Write(h.tail)
	return strings.TrimSpace(strings.ToValidUTF8(b.String(), "\ufffd"))
}
