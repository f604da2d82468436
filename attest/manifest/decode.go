package manifest

import (
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/wallproof/wallproof/internal/canon"
)

// Decode reads a line into its entry: a *Run, *Technique or *Terminal. The
// members must be exactly those that this version writes, so that nothing in the
// line escapes whoever looks at the entry. l must come from a Reader.
func (l Line) Decode() (any, error) {
	var entry any
	switch l.Type {
	case TypeRun:
		entry = new(Run)
	case TypeTechnique:
		entry = new(Technique)
	case TypeTerminal:
		entry = new(Terminal)
	default:
		return nil, &Error{Reason: ReasonType, Line: l.Seq}
	}
	if err := canon.UnmarshalExact(l.Raw, entry); err != nil {
		return nil, lineError(l.Seq, err)
	}
	return entry, nil
}

// Manifest is a whole manifest in memory, checked.
type Manifest struct {
	Run        Run
	Techniques []Technique
	Terminal   Terminal
	Summary    Summary
}

// Read reads a complete manifest into memory, entries and totals included, up to
// MaxReadBytes.
func Read(r io.Reader) (*Manifest, error) { return read(r, MaxReadBytes) }

func read(r io.Reader, limit int) (*Manifest, error) {
	rd := NewReader(r)
	m := &Manifest{}
	for {
		l, err := rd.Next()
		if errors.Is(err, io.EOF) {
			m.Summary = rd.Summary()
			if err := m.checkTotals(); err != nil {
				return nil, err
			}
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		if limit -= len(l.Raw); limit < 0 {
			return nil, &Error{Reason: ReasonTooLarge, Line: l.Seq, Detail: fmt.Sprintf("more than %d bytes to keep in memory", MaxReadBytes)}
		}
		entry, err := l.Decode()
		if err != nil {
			return nil, err
		}
		switch e := entry.(type) {
		case *Run:
			m.Run = *e
		case *Technique:
			m.Techniques = append(m.Techniques, *e)
		case *Terminal:
			m.Terminal = *e
		}
	}
}

func (m *Manifest) checkTotals() error {
	totals := map[string]map[string]int64{}
	for _, t := range m.Techniques {
		count(totals, t)
	}
	if !maps.EqualFunc(totals, m.Terminal.Totals, maps.Equal[map[string]int64]) {
		return &Error{Reason: ReasonTotals, Line: m.Terminal.Seq, Detail: fmt.Sprintf("the entries add up to %v", totals)}
	}
	return nil
}

// DecodeLine reads a single line, without its LF, that did not come from a
// Reader. Its place in a chain is not checked but for its number.
func DecodeLine(seq int64, raw []byte) (any, error) {
	h, err := parseHeader(raw)
	if err != nil {
		return nil, lineError(seq, err)
	}
	if h.seq != seq {
		return nil, &Error{Reason: ReasonReordered, Line: seq, Detail: fmt.Sprintf("the line says that it is number %d", h.seq)}
	}
	return Line{Seq: h.seq, Type: h.typ, Raw: raw}.Decode()
}
