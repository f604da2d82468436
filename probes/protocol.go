package probes

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/attest/manifest"
)

// LineTag begins every line of the protocol.
const LineTag = "wp1"

// TimeFormat is how observations write a time: RFC 3339, UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Writer writes authenticated result lines. It is safe for use by several
// goroutines.
type Writer struct {
	mu      sync.Mutex
	out     io.Writer
	key     []byte
	seq     uint64
	written int
}

// NewWriter returns a Writer that signs with the key of a plan (hex).
func NewWriter(out io.Writer, key string) (*Writer, error) {
	raw, err := decodeKey(key)
	if err != nil {
		return nil, err
	}
	return &Writer{out: out, key: raw}, nil
}

// Write sends one observation, cut to the protocol's bounds. It fails when the
// output does, or when the total would exceed MaxOutput.
func (w *Writer) Write(o manifest.Observation) error {
	payload, err := json.Marshal(bound(o))
	if err != nil {
		return fmt.Errorf("encode an observation: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	line := formatLine(w.key, w.seq+1, payload)
	if len(line) > MaxLine || w.written+len(line) > MaxOutput {
		return errors.New("write an observation: over the protocol's bounds")
	}
	n, err := w.out.Write(line)
	w.written += n
	if err != nil {
		return fmt.Errorf("write an observation: %w", err)
	}
	w.seq++
	return nil
}

// Stats says what a Reader has seen.
type Stats struct {
	Accepted int  // lines that became observations
	Foreign  int  // lines that are not of this protocol at all
	Forged   int  // lines of the right form whose MAC or payload is wrong
	Repeated int  // authentic lines whose number did not grow
	Oversize int  // lines over MaxLine
	Missing  int  // numbers skipped between authentic lines
	Cut      bool // the output exceeded MaxOutput and the rest was not read
}

// Ignored is the number of lines that were not accepted.
func (s Stats) Ignored() int { return s.Foreign + s.Forged + s.Repeated + s.Oversize }

// Reader takes authentic observations out of a sandbox's output.
type Reader struct {
	in    *bufio.Reader
	key   []byte
	last  uint64
	read  int
	stats Stats
}

// NewReader returns a Reader over a process's standard output that accepts
// lines signed with the plan's key (hex).
func NewReader(in io.Reader, key string) (*Reader, error) {
	raw, err := decodeKey(key)
	if err != nil {
		return nil, err
	}
	return &Reader{in: bufio.NewReaderSize(in, MaxLine), key: raw}, nil
}

// Next returns the next authentic observation, or io.EOF at the end of the
// output or at MaxOutput. Any other error is the input's. Only Side, Nonce and
// the members that a side inside the sandbox may report are trusted to be what
// they say, because whoever holds the key said so.
func (r *Reader) Next() (manifest.Observation, error) {
	for {
		line, err := r.line()
		if err != nil {
			return manifest.Observation{}, err
		}
		if o, ok := r.accept(line); ok {
			return o, nil
		}
	}
}

// Stats returns what has been seen so far.
func (r *Reader) Stats() Stats { return r.stats }

// line returns the next line within bounds, without its LF. A last line without
// LF is a line cut short, and dropped.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.read > MaxOutput {
			r.stats.Cut = true
			return nil, io.EOF
		}
		line, err := r.in.ReadSlice('\n')
		r.read += len(line)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			r.stats.Oversize++
			if err := r.skipLine(); err != nil {
				return nil, err
			}
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				r.stats.Foreign++
			}
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("read the probe's output: %w", err)
		}
	}
}

func (r *Reader) skipLine() error {
	for r.read <= MaxOutput {
		part, err := r.in.ReadSlice('\n')
		r.read += len(part)
		if err == nil {
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				return io.EOF
			}
			return fmt.Errorf("read the probe's output: %w", err)
		}
	}
	return nil
}

func (r *Reader) accept(line []byte) (manifest.Observation, bool) {
	var zero manifest.Observation
	parts := bytes.Split(line, []byte(" "))
	if len(parts) != 4 || string(parts[0]) != LineTag {
		r.stats.Foreign++
		return zero, false
	}
	seq, err := strconv.ParseUint(string(parts[1]), 10, 63)
	if err != nil || seq == 0 || strconv.FormatUint(seq, 10) != string(parts[1]) {
		r.stats.Forged++
		return zero, false
	}
	if !hmac.Equal(parts[3], lineMAC(r.key, seq, parts[2])) {
		r.stats.Forged++
		return zero, false
	}
	if seq <= r.last {
		r.stats.Repeated++
		return zero, false
	}
	o, err := decodePayload(parts[2])
	if err != nil {
		r.stats.Forged++
		return zero, false
	}
	r.stats.Missing += int(seq - r.last - 1)
	r.last = seq
	r.stats.Accepted++
	return bound(o), true
}

func decodePayload(b64 []byte) (manifest.Observation, error) {
	var o manifest.Observation
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(b64))
	if err != nil {
		return o, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return manifest.Observation{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return manifest.Observation{}, errors.New("data after the observation")
	}
	return o, nil
}

func formatLine(key []byte, seq uint64, payload []byte) []byte {
	b64 := base64.RawURLEncoding.EncodeToString(payload)
	number := strconv.FormatUint(seq, 10)
	return []byte(LineTag + " " + number + " " + b64 + " " + string(lineMAC(key, seq, []byte(b64))) + "\n")
}

func lineMAC(key []byte, seq uint64, b64 []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(strconv.AppendUint(nil, seq, 10))
	mac.Write([]byte("."))
	mac.Write(b64)
	return hex.AppendEncode(nil, mac.Sum(nil))
}

func decodeKey(key string) ([]byte, error) {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) < MinKeyBytes {
		return nil, fmt.Errorf("check the result key: want at least %d bytes in hex", MinKeyBytes)
	}
	return raw, nil
}

// bound cuts an observation to what the schema permits.
func bound(o manifest.Observation) manifest.Observation {
	for _, s := range []*string{&o.Detail, &o.Sign, &o.Errno, &o.Proof, &o.Service, &o.Proto,
		&o.Source, &o.Dest, &o.Host, &o.Verdict, &o.Rule, &o.Time, &o.Nonce, &o.Sandbox, &o.Side} {
		*s = printable(*s)
	}
	if len(o.Obtained) > MaxObtained {
		o.Obtained = o.Obtained[:MaxObtained]
	}
	if len(o.Local) > MaxLocal {
		o.Local = o.Local[:MaxLocal]
	}
	for _, list := range [][]string{o.Obtained, o.Local} {
		for i := range list {
			list[i] = printable(list[i])
		}
	}
	return o
}

// printable keeps at most MaxDetail printable ASCII characters; everything else
// becomes "?".
func printable(s string) string {
	if len(s) > MaxDetail {
		s = s[:MaxDetail]
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}
