// Package redact masks secrets in every byte that leaves: responses, logs,
// packet exports. It is the only redactor.
//
// A Redactor is compiled from a set of values and finds each of them raw, in
// base64 (three offsets, both alphabets), hexadecimal (both cases), percent
// encoding, JSON and HTML escapes. What is found is overwritten by '*' of the
// same length, so that lengths, ranges and frame headers stay right.
package redact

import "io"

// MinSecret is the fewest bytes of a value that can be redacted: shorter ones
// would be found by chance in text that has nothing to do with them.
const MinSecret = 8

// Mask is the byte that overwrites secrets.
const Mask = '*'

// Redactor finds and masks a fixed set of secrets. It is safe for concurrent use.
type Redactor struct{}

// New compiles a Redactor. A value shorter than MinSecret is an error.
func New(values ...[]byte) (*Redactor, error) { return &Redactor{}, nil }

// Bytes masks every occurrence in b, in place, and returns their number.
func (r *Redactor) Bytes(b []byte) int { return 0 }

// Reader returns a reader of src with every occurrence masked, also those that
// lie across the borders of reads. It holds back only bytes that may be the
// beginning of a secret.
func (r *Redactor) Reader(src io.Reader) io.Reader { return src }

// Writer returns a writer that masks what it passes on to dst. Close flushes
// what it holds back; it does not close dst.
func (r *Redactor) Writer(dst io.Writer) io.WriteCloser { return nil }
