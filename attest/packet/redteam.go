package packet

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// RedTeamSchema names our own form of a red-team result.
const RedTeamSchema = "wallproof.redteam/v1"

// RedTeamPayloadType is the payload type of a signed result in our own form.
const RedTeamPayloadType = "application/vnd.wallproof.redteam+json"

// MaxRedTeamBytes bounds a red-team result.
const MaxRedTeamBytes = 16 << 20

// ErrRedTeam is the class of errors of ParseRedTeam.
var ErrRedTeam = errors.New("not a red-team result")

// RedTeamResult is redteam.json in our own form.
type RedTeamResult struct {
	Schema          string `json:"schema"`
	Engagement      string `json:"engagement"`
	Target          string `json:"target"` // image digest, "sha256:…"
	CriticalEscapes int64  `json:"criticalEscapes"`
	LastRun         string `json:"lastRun"`                // RFC 3339
	ResultDigest    string `json:"resultDigest,omitempty"` // of the red team's report; default: of this document
}

// Envelope is a DSSE envelope as it is handed in, with one signature.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"` // base64
	Signatures  []Signature `json:"signatures"`
}

// Signature is one of an envelope's.
type Signature struct {
	KeyID string `json:"keyid,omitempty"`
	Sig   string `json:"sig"` // base64
}

// ParsedRedTeam is a red-team result in any of its forms.
type ParsedRedTeam struct {
	predicate.RedTeam
	// Payload and Signature are set for a signed result. The signature has not
	// been checked: whose key it must be is the caller's to know.
	PayloadType string
	Payload     []byte
	Signature   []byte
}

// ParseRedTeam reads a red-team result: our own JSON (RedTeamResult), SARIF
// 2.1.0, or either of them in a DSSE envelope signed by the red team.
func ParseRedTeam(data []byte) (ParsedRedTeam, error) {
	p, err := parseRedTeam(data)
	if err != nil {
		return ParsedRedTeam{}, fmt.Errorf("%w: %w", ErrRedTeam, err)
	}
	p.Digest = predicate.Digest(data)
	return p, nil
}

func parseRedTeam(data []byte) (ParsedRedTeam, error) {
	var kind struct {
		PayloadType string `json:"payloadType"`
		Version     string `json:"version"`
		Schema      string `json:"schema"`
	}
	if _, err := canon.UnmarshalJSON(data, canon.Limits{Bytes: MaxRedTeamBytes}, &kind); err != nil {
		return ParsedRedTeam{}, err
	}
	if kind.PayloadType != "" {
		return parseSignedRedTeam(data)
	}
	t, err := parseUnsigned(data, kind.Version, kind.Schema)
	t.Attestor = predicate.RedTeamOperator
	return ParsedRedTeam{RedTeam: t}, err
}

func parseUnsigned(data []byte, version, schema string) (predicate.RedTeam, error) {
	parse := parseOwn
	switch {
	case schema == RedTeamSchema:
	case version == sarifVersion:
		parse = parseSARIF
	default:
		return predicate.RedTeam{}, fmt.Errorf("neither schema %q nor SARIF %s nor a DSSE envelope", RedTeamSchema, sarifVersion)
	}
	t, err := parse(data)
	if err != nil {
		return predicate.RedTeam{}, err
	}
	return t, checkRedTeam(t)
}

func parseOwn(data []byte) (predicate.RedTeam, error) {
	var r RedTeamResult
	if err := canon.UnmarshalLimits(data, canon.Limits{Bytes: MaxRedTeamBytes}, &r); err != nil {
		return predicate.RedTeam{}, err
	}
	if r.ResultDigest == "" {
		r.ResultDigest = predicate.Digest(data)
	}
	return predicate.RedTeam{
		Engagement: r.Engagement, Target: r.Target, CriticalEscapes: r.CriticalEscapes,
		LastRun: r.LastRun, ResultDigest: r.ResultDigest,
	}, nil
}

func checkRedTeam(t predicate.RedTeam) error {
	if t.Engagement == "" || len(t.Engagement) > maxField {
		return errors.New("the engagement has no name, or a very long one")
	}
	if err := predicate.CheckDigest(t.Target); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if err := predicate.CheckDigest(t.ResultDigest); err != nil {
		return fmt.Errorf("resultDigest: %w", err)
	}
	if t.CriticalEscapes < 0 {
		return errors.New("criticalEscapes is negative")
	}
	if _, err := time.Parse(time.RFC3339, t.LastRun); err != nil {
		return fmt.Errorf("lastRun: %w", err)
	}
	return nil
}

func parseSignedRedTeam(data []byte) (ParsedRedTeam, error) {
	var e Envelope
	if err := canon.UnmarshalLimits(data, canon.Limits{Bytes: MaxRedTeamBytes}, &e); err != nil {
		return ParsedRedTeam{}, err
	}
	if len(e.Signatures) != 1 {
		return ParsedRedTeam{}, fmt.Errorf("an envelope with %d signatures, want one", len(e.Signatures))
	}
	payload, err := decodeBase64(e.Payload)
	if err != nil {
		return ParsedRedTeam{}, fmt.Errorf("payload: %w", err)
	}
	sig, err := decodeBase64(e.Signatures[0].Sig)
	if err != nil {
		return ParsedRedTeam{}, fmt.Errorf("signature: %w", err)
	}
	inner, err := parseRedTeam(payload)
	if err != nil {
		return ParsedRedTeam{}, err
	}
	if inner.Payload != nil {
		return ParsedRedTeam{}, errors.New("an envelope in an envelope")
	}
	inner.Attestor = predicate.RedTeamSigned
	inner.PayloadType, inner.Payload, inner.Signature = e.PayloadType, payload, sig
	return inner, nil
}

// decodeBase64 accepts both alphabets, as DSSE asks, with padding.
func decodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		b, err = base64.URLEncoding.Strict().DecodeString(s)
	}
	return b, err
}

// ReadRedTeam reads the packet's red-team result; nil when it has none.
func ReadRedTeam(packet fs.FS) (*ParsedRedTeam, error) {
	data, err := ReadDocument(packet, RedTeamFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := ParseRedTeam(data)
	if err != nil {
		return nil, &Error{Reason: ReasonDocument, Path: RedTeamFile, Err: err}
	}
	return &r, nil
}
