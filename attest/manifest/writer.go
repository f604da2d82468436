package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/wallproof/wallproof/internal/canon"
)

// Writer appends entries to a manifest. Each line reaches the underlying writer
// in one Write, and is made durable at once when that writer has a method
// Sync() error, as files have. So a run that dies leaves whole lines and at most
// one cut one, and no terminal entry: the reader calls that incomplete.
//
// A Writer is for one goroutine.
type Writer struct {
	w      io.Writer
	seq    int64
	prev   string
	totals map[string]map[string]int64
	tree   Tree
	edits  []Edit
	halts  []Halt
	done   bool
	err    error
}

// NewWriter returns a Writer that begins a manifest on w, which must be empty.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, prev: Genesis, totals: map[string]map[string]int64{}}
}

// Errors of a Writer that is used out of order.
var (
	ErrNoRun  = errors.New("manifest: the first entry must be the run")
	ErrRun    = errors.New("manifest: the run is entry 0 and stands there once")
	ErrClosed = errors.New("manifest: the terminal entry has been written")
)

// WriteRun writes entry 0. It sets Seq, Prev, Type and Schema.
func (w *Writer) WriteRun(r Run) error {
	if w.seq != 0 {
		return ErrRun
	}
	r.Seq, r.Prev, r.Type, r.Schema = 0, w.prev, TypeRun, Schema
	return w.append(r)
}

// WriteTechnique appends one technique variant. It sets Seq, Prev and Type and
// counts the outcome.
func (w *Writer) WriteTechnique(t Technique) error {
	if w.seq == 0 {
		return ErrNoRun
	}
	t.Seq, t.Prev, t.Type = w.seq, w.prev, TypeTechnique
	if err := w.append(t); err != nil {
		return err
	}
	count(w.totals, t)
	return nil
}

// Note keeps what happened around the run for the terminal entry.
func (w *Writer) Note(edits []Edit, halts []Halt) { w.edits, w.halts = edits, halts }

// Close writes the terminal entry, with totals and count as they are, and
// returns what the statement carries.
func (w *Writer) Close(nonceKey string, ended string) (Summary, error) {
	if w.seq == 0 {
		return Summary{}, ErrNoRun
	}
	t := Terminal{
		Seq: w.seq, Prev: w.prev, Type: TypeTerminal, Totals: w.totals,
		Count: w.seq + 1, NonceKey: nonceKey, Ended: ended, Head: w.prev,
		Edits: w.edits, Halts: w.halts,
	}
	if err := w.append(t); err != nil {
		return Summary{}, err
	}
	w.done = true
	return Summary{Head: w.prev, Count: w.seq, MerkleRoot: w.tree.Root().String()}, nil
}

// Summary is what a signed statement carries of a manifest.
type Summary struct {
	Head       string `json:"head"`       // SHA-256 of the terminal line, hex
	Count      int64  `json:"count"`      // all lines
	MerkleRoot string `json:"merkleRoot"` // RFC 6962, hex
}

func (w *Writer) append(entry any) error {
	if w.err != nil {
		return w.err
	}
	if w.done {
		return ErrClosed
	}
	line, err := canon.Marshal(entry)
	if err != nil {
		return fmt.Errorf("manifest: write entry %d: %w", w.seq, err)
	}
	if len(line) > MaxLineBytes {
		return &Error{Reason: ReasonTooLarge, Line: w.seq, Detail: fmt.Sprintf("entry of %d bytes, the limit is %d", len(line), MaxLineBytes)}
	}
	if err := w.write(append(line, '\n')); err != nil {
		// What reached the file is unknown, so nothing may follow it.
		w.err = fmt.Errorf("manifest: write entry %d: %w", w.seq, err)
		return w.err
	}
	sum := sha256.Sum256(line)
	w.prev = hex.EncodeToString(sum[:])
	w.tree.Append(line)
	w.seq++
	return nil
}

func (w *Writer) write(line []byte) error {
	if _, err := w.w.Write(line); err != nil {
		return err
	}
	if s, ok := w.w.(interface{ Sync() error }); ok {
		return s.Sync()
	}
	return nil
}

// count adds a technique's outcome to totals.
func count(totals map[string]map[string]int64, t Technique) {
	if totals[t.Vector] == nil {
		totals[t.Vector] = map[string]int64{}
	}
	totals[t.Vector][t.Outcome]++
}
