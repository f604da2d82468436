package predicate

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/internal/canon"
)

// Statement is an in-toto statement v1 whose predicate is still in bytes.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// Subject is a resource descriptor, as far as Wallproof writes and compares it.
type Subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// SubjectOf is the subject for a digest "sha256:…".
func SubjectOf(name, digest string) Subject {
	return Subject{Name: name, Digest: map[string]string{"sha256": digestHex(digest)}}
}

// Sha256 returns the subject's digest as "sha256:…", or "" when it has none.
func (s Subject) Sha256() string {
	if h := s.Digest["sha256"]; h != "" {
		return digestPrefix + h
	}
	return ""
}

// Errors of ParseStatement beside canon's.
var (
	ErrNotStatement = errors.New("the payload is not an in-toto statement v1")
	ErrSubjects     = errors.New("a statement must have exactly one subject with one sha256 digest")
)

// statementLimits bound a statement; a subject list beyond it is refused while
// reading.
var statementLimits = canon.Limits{Bytes: MaxStatementBytes, Depth: MaxStatementDepth, Members: MaxFiles}

// Marshal writes a statement about one subject in canonical form: these are the
// bytes to sign.
func Marshal(subject Subject, predicateType string, predicate any) ([]byte, error) {
	p, err := canon.Marshal(predicate)
	if err != nil {
		return nil, fmt.Errorf("write predicate: %w", err)
	}
	return canon.Marshal(Statement{Type: StatementType, Subject: []Subject{subject}, PredicateType: predicateType, Predicate: p})
}

// ParseStatement reads signed bytes strictly: no duplicate or case-folded
// members at any depth, valid UTF-8, integers only, exactly one subject. Members
// that this version does not know are skipped and listed.
func ParseStatement(payload []byte) (Statement, []string, error) {
	var s Statement
	unknown, err := canon.UnmarshalOpen(payload, statementLimits, &s)
	if err != nil {
		return Statement{}, nil, fmt.Errorf("read statement: %w", err)
	}
	if s.Type != StatementType || s.PredicateType == "" {
		return s, unknown, fmt.Errorf("%w: its _type is %.100q, its predicateType %.100q", ErrNotStatement, s.Type, s.PredicateType)
	}
	if len(s.Subject) != 1 || len(s.Subject[0].Digest) != 1 || CheckDigest(s.Subject[0].Sha256()) != nil {
		return s, unknown, fmt.Errorf("%w: it has %d", ErrSubjects, len(s.Subject))
	}
	return s, unknown, nil
}

// Decode reads the statement's predicate into v and lists members that v does
// not have.
func (s Statement) Decode(v any) ([]string, error) {
	unknown, err := canon.UnmarshalOpen(s.Predicate, statementLimits, v)
	if err != nil {
		return nil, fmt.Errorf("read predicate: %w", err)
	}
	for i := range unknown {
		unknown[i] = "predicate." + unknown[i]
	}
	return unknown, nil
}
