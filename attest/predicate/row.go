package predicate

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/internal/canon"
)

// RowSchema names the format of a row proof.
const RowSchema = "wallproof.row/v1"

// Row is one line of a manifest with all that is needed to check that it is one
// of those that were signed, without the others.
type Row struct {
	Schema      string          `json:"schema"`
	Line        string          `json:"line"`        // as it stands in the manifest, without its LF
	Index       int64           `json:"index"`       // from 0
	Size        int64           `json:"size"`        // lines of the manifest
	Proof       []string        `json:"proof"`       // RFC 6962 audit path, lower-case hex, from the leaf up
	Attestation json.RawMessage `json:"attestation"` // the Sigstore bundle
}

// MaxRowBytes bounds a row proof.
const MaxRowBytes = 80 << 20

// ErrRow is the class of ParseRow's errors.
var ErrRow = errors.New("not a row proof")

// ParseRow reads a row proof strictly.
func ParseRow(data []byte) (Row, error) {
	var r Row
	// The bundle inside may hold any JSON number; it is checked by its own reader.
	unknown, err := canon.UnmarshalJSON(data, canon.Limits{Bytes: MaxRowBytes}, &r)
	if err != nil {
		return Row{}, fmt.Errorf("%w: %w", ErrRow, err)
	}
	if r.Schema != RowSchema || len(unknown) > 0 || r.Line == "" || len(r.Attestation) == 0 {
		return Row{}, fmt.Errorf("%w: schema is %.60q, want %q, with line and attestation and nothing else", ErrRow, r.Schema, RowSchema)
	}
	return r, nil
}
