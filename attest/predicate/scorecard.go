package predicate

import (
	"errors"
	"fmt"
	"time"

	"github.com/wallproof/wallproof/internal/canon"
)

// ScorecardSchema names the format.
const ScorecardSchema = "wallproof.scorecard/v1"

// Kinds of scorecards. All are backed by the same attestation.
const (
	KindCreate    = "create"
	KindContinue  = "continue"
	KindRemediate = "remediate"
)

// Scorecard is what Wallproof reads of a scorecard. Anything else in it is its
// producer's.
type Scorecard struct {
	Schema   string `json:"schema"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Produced string `json:"produced"` // RFC 3339
	Image    string `json:"image"`    // platform manifest digest
	Policy   string `json:"policy"`   // policy digest
}

// MaxScorecardBytes bounds a scorecard.
const MaxScorecardBytes = 64 << 20

// ErrScorecard is the class of ParseScorecard's own errors.
var ErrScorecard = errors.New("not a scorecard")

// ParseScorecard reads a scorecard strictly, as far as Wallproof understands it.
func ParseScorecard(data []byte) (Scorecard, error) {
	var s Scorecard
	if _, err := canon.UnmarshalJSON(data, canon.Limits{Bytes: MaxScorecardBytes}, &s); err != nil {
		return Scorecard{}, fmt.Errorf("%w: %w", ErrScorecard, err)
	}
	if s.Schema != ScorecardSchema {
		return Scorecard{}, fmt.Errorf("%w: schema is %.100q, want %q", ErrScorecard, s.Schema, ScorecardSchema)
	}
	if s.Kind != KindCreate && s.Kind != KindContinue && s.Kind != KindRemediate {
		return Scorecard{}, fmt.Errorf("%w: kind is %.100q, want create, continue or remediate", ErrScorecard, s.Kind)
	}
	if s.ID == "" {
		return Scorecard{}, fmt.Errorf("%w: id is empty", ErrScorecard)
	}
	if _, err := time.Parse(time.RFC3339, s.Produced); err != nil {
		return Scorecard{}, fmt.Errorf("%w: produced: %w", ErrScorecard, err)
	}
	if err := CheckDigest(s.Image); err != nil {
		return Scorecard{}, fmt.Errorf("%w: image: %w", ErrScorecard, err)
	}
	if err := CheckDigest(s.Policy); err != nil {
		return Scorecard{}, fmt.Errorf("%w: policy: %w", ErrScorecard, err)
	}
	return s, nil
}

// Binding is the predicate of TypeBinding. The statement's subject is the
// scorecard's digest.
type Binding struct {
	Attestation string `json:"attestation"` // digest of the signed trust-boundary statement
	RunID       string `json:"runId"`
	Image       string `json:"image"`
	Policy      string `json:"policy"`
	Kind        string `json:"kind"`
	ScorecardID string `json:"scorecardId"`
	Produced    string `json:"produced"`
	Bound       string `json:"bound"` // when it was signed, as the signer says
}
