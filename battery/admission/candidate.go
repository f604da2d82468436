package admission

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	sgverify "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/wallproof/wallproof/internal/canon"
)

// candidate is something that a registry offers as a signature or an attestation
// of an image. Nothing of it is believed.
type candidate struct {
	where   string // for messages
	about   string // the digest that it was found for
	bundle  *bundle.Bundle
	payload []byte // what was signed: simple signing, or a statement
	simple  bool   // a payload of simple signing
	broken  error  // it could not even be read
}

// Types of statements.
const (
	statementType = "application/vnd.in-toto+json"
	signType      = "https://sigstore.dev/cosign/sign/v1"
	slsaV1        = "https://slsa.dev/provenance/v1"
	slsaV02       = "https://slsa.dev/provenance/v0.2"
	simpleType    = "cosign container image signature"
)

// check returns where a signature and where provenance were found, each "" for
// nowhere, and why what else was found does not count.
func (c *checker) check(found []candidate) (signed, built string, told []string) {
	for _, f := range found {
		is, err := c.one(f)
		switch {
		case err != nil:
			told = append(told, f.where+": "+oneLine(err.Error()))
		case is == isSignature && signed == "":
			signed = f.where
		case is == isProvenance && built == "":
			built = f.where
		}
	}
	return signed, built, told
}

// what a verified candidate is.
type kind int

const (
	isOther kind = iota
	isSignature
	isProvenance
)

// one verifies a candidate: first the signature over the exact bytes, then what
// they say.
func (c *checker) one(f candidate) (kind, error) {
	if f.broken != nil {
		return isOther, f.broken
	}
	artifact, err := f.artifact()
	if err != nil {
		return isOther, err
	}
	if _, err := c.verifier.Verify(f.bundle, sgverify.NewPolicy(artifact, c.policy)); err != nil {
		return isOther, fmt.Errorf("does not verify: %w", err)
	}
	if err := canon.CheckJSON(f.payload, canon.Limits{Bytes: maxBytes, Depth: 64}); err != nil {
		return isOther, fmt.Errorf("read what was signed: %w", err)
	}
	if f.simple {
		return isSignature, simpleSigning(f.payload, f.about)
	}
	return c.statement(f)
}

func (f candidate) artifact() (sgverify.ArtifactPolicyOption, error) {
	if f.simple {
		return sgverify.WithArtifact(bytes.NewReader(f.payload)), nil
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(f.about, "sha256:"))
	if err != nil {
		return nil, err
	}
	return sgverify.WithArtifactDigest("sha256", raw), nil
}

// simpleSigning checks that a payload of simple signing is about a digest.
func simpleSigning(payload []byte, digest string) error {
	var p struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return fmt.Errorf("read the signed payload: %w", err)
	}
	switch {
	case p.Critical.Type != simpleType:
		return fmt.Errorf("signs something of the type %.80q, not %q", p.Critical.Type, simpleType)
	case p.Critical.Image.Digest != digest:
		return fmt.Errorf("signs the image %.80q, not %s", p.Critical.Image.Digest, digest)
	}
	return nil
}

// statement says what a verified statement is. That one of its subjects is the
// image was checked with the signature; a signature has no other one.
func (c *checker) statement(f candidate) (kind, error) {
	var s struct {
		PredicateType string            `json:"predicateType"`
		Subject       []json.RawMessage `json:"subject"`
		Predicate     struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
			RunDetails struct {
				Builder struct {
					ID string `json:"id"`
				} `json:"builder"`
			} `json:"runDetails"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(f.payload, &s); err != nil {
		return isOther, fmt.Errorf("read the statement: %w", err)
	}
	builder := s.Predicate.Builder.ID
	switch s.PredicateType {
	case signType:
		if len(s.Subject) != 1 {
			return isOther, fmt.Errorf("a signature of %d subjects; it must be of exactly one", len(s.Subject))
		}
		return isSignature, nil
	case slsaV1:
		builder = s.Predicate.RunDetails.Builder.ID
	case slsaV02:
	default:
		return isOther, nil
	}
	if c.rules.Builder == "" {
		return isOther, nil
	}
	if builder != c.rules.Builder {
		return isOther, fmt.Errorf("provenance by the builder %.200q", builder)
	}
	return isProvenance, nil
}

// oneLine keeps words from outside short and printable.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s), "?")
}

var errTooLarge = errors.New("larger than the limit")
