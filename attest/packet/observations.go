package packet

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/internal/canon"
)

// Bounds on one observation file.
const (
	MaxObservations     = 4 << 20
	MaxObservationBytes = 256 << 10 // of one line
)

// WriteObservation appends one observation as a canonical line.
func WriteObservation(w io.Writer, o manifest.Observation) error {
	line, err := canon.Marshal(o)
	if err != nil {
		return fmt.Errorf("write observation: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// CompareObservations orders the lines of an observation file: by nonce, then by
// side, time and place. Lines that it finds equal keep the order in which they
// were seen.
func CompareObservations(a, b manifest.Observation) int {
	if c := cmp.Compare(a.Nonce, b.Nonce); c != 0 {
		return c
	}
	if c := cmp.Compare(slices.Index(sidesInOrder, a.Side), slices.Index(sidesInOrder, b.Side)); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Time, b.Time); c != 0 {
		return c
	}
	return cmp.Compare(a.Service+a.Proto+a.Dest+a.Host, b.Service+b.Proto+b.Dest+b.Host)
}

var sidesInOrder = []string{manifest.SideProbe, manifest.SideRunner, manifest.SideProxy, manifest.SideFilter, manifest.SideWitness}

// ReadObservations calls fn with each observation of one file, in order. Every
// line is canonical, has the members of the schema and ends in LF.
func ReadObservations(packet fs.FS, name string, fn func(manifest.Observation) error) error {
	f, err := Open(packet, name)
	if err != nil {
		return &Error{Reason: ReasonMissing, Path: name, Err: err}
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, manifest.BufferFor(f, MaxObservationBytes))
	for n := 0; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil || n >= MaxObservations {
			return &Error{Reason: ReasonDocument, Path: name, Detail: fmt.Sprintf("line %d is cut short or beyond the limit", n), Err: err}
		}
		o, err := decodeObservation(line[:len(line)-1])
		if err != nil {
			return &Error{Reason: ReasonDocument, Path: name, Detail: fmt.Sprintf("line %d", n), Err: err}
		}
		if err := fn(o); err != nil {
			return err
		}
	}
}

func decodeObservation(line []byte) (manifest.Observation, error) {
	var o manifest.Observation
	if err := canon.Check(line, canon.Limits{Bytes: MaxObservationBytes}); err != nil {
		return o, err
	}
	if err := canon.UnmarshalExact(line, &o); err != nil {
		return o, err
	}
	return o, checkWords(o)
}

// The closed lists of an observation. A word outside of them would be one that
// the judge does not read: an escape under another name.
var (
	signs = []string{manifest.SignRefused, manifest.SignClosed, manifest.SignAbsent, manifest.SignTimeout, manifest.SignMissing,
		manifest.SignReached, manifest.SignAnswered, manifest.SignSent, manifest.SignError, manifest.SignCrashed}
	verdicts = []string{"allow", "deny", "redact", "failed"}
)

// checkWords refuses a side, sign or verdict that no list has, or that is not of
// its side: signs are the probe's and the runner's, verdicts the enforcement's.
func checkWords(o manifest.Observation) error {
	if !slices.Contains(sidesInOrder, o.Side) {
		return fmt.Errorf("unknown side %.60q", o.Side)
	}
	for _, w := range []struct {
		what, word string
		list       []string
		here       bool
	}{
		{"sign", o.Sign, signs, o.Side == manifest.SideProbe || o.Side == manifest.SideRunner},
		{"verdict", o.Verdict, verdicts, o.Side == manifest.SideProxy || o.Side == manifest.SideFilter},
	} {
		if w.here && !slices.Contains(w.list, w.word) {
			return fmt.Errorf("unknown %s %.60q of side %s", w.what, w.word, o.Side)
		}
		if !w.here && w.word != "" {
			return fmt.Errorf("side %s has no %s, not %.60q", o.Side, w.what, w.word)
		}
	}
	return nil
}
