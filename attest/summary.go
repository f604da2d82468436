package attest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/verify"
)

// ErrNotVerified means that a report has nothing to sign: the statement was not
// authenticated.
var ErrNotVerified = errors.New("the attestation was not authenticated, so there is nothing to sign")

// SignVerification signs a verifier's re-run as a SLSA Verification Summary. The
// report must be of a Verify with WithoutRerun set: it says PASSED only when
// that verdict was valid, or held for nothing but escapes that are not critical,
// which the level then says; and FAILED otherwise. A signer that is the attester
// itself is labelled so.
func SignVerification(ctx context.Context, r verify.Report, s Signer, version string) (Result, error) {
	return SignVerificationWith(ctx, r, s, Services{}, version)
}

// SignVerificationWith is SignVerification with services that take part.
func SignVerificationWith(ctx context.Context, r verify.Report, s Signer, services Services, version string) (Result, error) {
	if r.Evidence == nil || r.Signer == nil {
		return Result{}, ErrNotVerified
	}
	if s == nil {
		return Result{}, ErrNoSigner
	}
	b := r.Evidence.Boundary
	self, err := isAttester(s, *r.Signer)
	if err != nil {
		return Result{}, err
	}
	hex := func(digest string) map[string]string {
		return map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}
	}
	vsa := predicate.VSA{
		Verifier:           predicate.Verifier{ID: predicate.VerifierIndependent, Version: map[string]string{"wallproof": version}},
		TimeVerified:       r.Times.Checked,
		ResourceURI:        verify.ResourceURI(b.Image),
		Policy:             predicate.VSAResource{URI: predicate.VerificationPolicy, Digest: hex(b.Battery.CatalogDigest)},
		InputAttestations:  []predicate.VSAResource{{Digest: hex(r.Attestation)}},
		VerificationResult: predicate.ResultFailed,
		VerifiedLevels:     []string{},
	}
	if self {
		vsa.Verifier.ID = predicate.VerifierSelf
	}
	if level := r.Level(); level != "" {
		vsa.VerificationResult, vsa.VerifiedLevels = predicate.ResultPassed, []string{level}
	}
	statement, err := predicate.Marshal(predicate.SubjectOf(b.Image.Reference, r.Subject), predicate.TypeVSA, vsa)
	if err != nil {
		return Result{}, fmt.Errorf("write the verification summary: %w", err)
	}
	return signed(ctx, statement, s, services)
}

// isAttester reports whether a signer is who signed the attestation: the same
// key, or the same identity. The certificate of a keyless signer does not exist
// yet; its token says what will be in it.
func isAttester(s Signer, attester verify.Signer) (bool, error) {
	if token := tokenOf(s); token != "" {
		issuer, names := claims(token)
		return attester.Kind == "identity" && issuer == attester.Issuer && slices.Contains(names, attester.Identity), nil
	}
	fingerprint, err := verify.Fingerprint(s.GetPublicKey())
	return fingerprint == attester.Fingerprint, err
}

// WriteVerification puts a signed re-run into a packet's directory.
func WriteVerification(dir string, r Result) (string, error) {
	path := filepath.Join(dir, packet.VerificationFile)
	return path, files.Write(path, r.Bundle, 0o644)
}

// ErrNoScorecard means that a report is not about a scorecard that fits.
var ErrNoScorecard = errors.New("the report is not about a scorecard that fits the attestation, so there is nothing to bind")

// SignBinding signs the binding of a scorecard to an attestation. The report
// must be of a Verify with the scorecard, and valid.
func SignBinding(ctx context.Context, r verify.Report, scorecard []byte, s Signer, now time.Time) (Result, error) {
	return SignBindingWith(ctx, r, scorecard, s, Services{}, now)
}

// SignBindingWith is SignBinding with services that take part.
func SignBindingWith(ctx context.Context, r verify.Report, scorecard []byte, s Signer, services Services, now time.Time) (Result, error) {
	if r.Evidence == nil || r.Evidence.Scorecard == nil || r.Verdict != verify.Valid {
		return Result{}, ErrNoScorecard
	}
	if s == nil {
		return Result{}, ErrNoSigner
	}
	card := *r.Evidence.Scorecard
	b := verify.BindingOf(r, r.Evidence.Boundary, card, manifest.FormatTime(now))
	statement, err := predicate.Marshal(predicate.SubjectOf(card.ID, predicate.Digest(scorecard)), predicate.TypeBinding, b)
	if err != nil {
		return Result{}, fmt.Errorf("write the binding: %w", err)
	}
	return signed(ctx, statement, s, services)
}

func signed(ctx context.Context, statement []byte, s Signer, services Services) (Result, error) {
	bundle, err := SignStatementWith(ctx, statement, s, services)
	if err != nil {
		return Result{}, err
	}
	algorithm, err := verify.Algorithm(s.GetPublicKey())
	if err != nil {
		return Result{}, err
	}
	return Result{Statement: statement, Digest: predicate.Digest(statement), Bundle: bundle, Algorithm: algorithm, Key: s.KeyName()}, nil
}

// ReadThreatModel reads a threat model; see packet.ParseThreatModel.
func ReadThreatModel(data []byte) (predicate.ThreatModel, error) {
	return packet.ParseThreatModel(data)
}

// ReadRedTeam reads a red-team result; see packet.ParseRedTeam.
func ReadRedTeam(data []byte) (packet.ParsedRedTeam, error) { return packet.ParseRedTeam(data) }
