package packet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"

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

// ReadObservations calls fn with each observation of one file, in order. Every
// line is canonical, has the members of the schema and ends in LF.
func ReadObservations(packet fs.FS, name string, fn func(manifest.Observation) error) error {
	f, err := packet.Open(name)
	if err != nil {
		return &Error{Reason: ReasonMissing, Path: name, Err: err}
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, MaxObservationBytes)
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
	return o, canon.UnmarshalExact(line, &o)
}
