package attest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// DefaultValidity is how long an attestation is valid, from the end of the run.
const DefaultValidity = 60 * 24 * time.Hour

// Options of Attest.
type Options struct {
	Signer      Signer
	Services    Services         // certificate authority, logs and timestamp authorities that take part
	ThreatModel []byte           // a threat model (packet.ParseThreatModel), or nil
	RedTeam     []byte           // a red-team result (packet.ParseRedTeam), or nil
	Validity    time.Duration    // from the end of the run; 0 means DefaultValidity
	Replace     bool             // replace an attestation that is there, and drop the re-run of it
	Clock       func() time.Time // nil means time.Now
	Catalogue   []catalog.Technique
}

// Result of signing.
type Result struct {
	Statement []byte // the signed bytes
	Digest    string // of the statement; the attestation's name
	Bundle    []byte // Sigstore bundle v0.3, JSON
	Path      string // where the bundle was written, or ""
	Algorithm string
	Key       string
	SignedAt  time.Time
	Boundary  predicate.Boundary
}

// Errors of Attest.
var (
	ErrPacketInvalid = errors.New("the packet does not verify, so it is not signed")
	ErrAttested      = errors.New("the packet is attested already")
)

// InvalidError is ErrPacketInvalid with the lines that failed.
type InvalidError struct{ Checks []verify.Check }

// Error lists the first failing line and how many there are.
func (e *InvalidError) Error() string {
	var failed []verify.Check
	for _, c := range e.Checks {
		if c.Status == verify.Fail {
			failed = append(failed, c)
		}
	}
	if len(failed) == 0 {
		return ErrPacketInvalid.Error()
	}
	s := fmt.Sprintf("%v: %s: %s", ErrPacketInvalid, failed[0].Code, failed[0].Message)
	if n := len(failed) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Is makes errors.Is(err, ErrPacketInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrPacketInvalid }

// Attest verifies the packet in a directory strictly, signs the statement over
// it and writes the bundle into the packet, with the threat model and the
// red-team result beside it. On any error the directory is as it was.
func Attest(ctx context.Context, dir string, o Options) (Result, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Result{}, fmt.Errorf("open packet: %w", err)
	}
	defer root.Close()
	base := root.FS()
	if _, err := fs.Stat(base, packet.AttestationFile); err == nil && !o.Replace {
		return Result{}, fmt.Errorf("%w: %s; --replace signs it anew", ErrAttested, filepath.Join(dir, packet.AttestationFile))
	}
	extra, err := o.documents(base)
	if err != nil {
		return Result{}, err
	}
	r, err := Sign(ctx, packet.Overlay(base, extra), o)
	if err != nil {
		return Result{}, err
	}
	extra[packet.AttestationFile] = r.Bundle
	if err := install(dir, extra); err != nil {
		return Result{}, err
	}
	r.Path = filepath.Join(dir, packet.AttestationFile)
	return r, nil
}

// documents returns the files to add, by their names in the packet.
func (o Options) documents(base fs.FS) (packet.Memory, error) {
	extra := packet.Memory{}
	if o.ThreatModel != nil {
		t, err := packet.ParseThreatModel(o.ThreatModel)
		if err != nil {
			return nil, fmt.Errorf("threat model: %w", err)
		}
		extra[t.File] = o.ThreatModel
	}
	if o.RedTeam != nil {
		if _, err := packet.ParseRedTeam(o.RedTeam); err != nil {
			return nil, fmt.Errorf("red-team result: %w", err)
		}
		extra[packet.RedTeamFile] = o.RedTeam
	}
	for name := range extra {
		if _, err := fs.Stat(base, name); err == nil && !o.Replace {
			return nil, fmt.Errorf("%w: %s is in the packet", ErrAttested, name)
		}
	}
	return extra, nil
}

// Sign verifies a packet and signs the statement over it, without writing
// anything.
func Sign(ctx context.Context, p fs.FS, o Options) (Result, error) {
	if o.Signer == nil {
		return Result{}, ErrNoSigner
	}
	now := time.Now
	if o.Clock != nil {
		now = o.Clock
	}
	derived, checks := verify.Inspect(p, o.Catalogue)
	if derived == nil {
		return Result{}, &InvalidError{Checks: checks}
	}
	b, err := o.boundary(derived, now())
	if err != nil {
		return Result{}, err
	}
	statement, err := predicate.Marshal(derived.Subject(), predicate.TypeBoundary, b)
	if err != nil {
		return Result{}, fmt.Errorf("write the statement: %w", err)
	}
	bundle, err := SignStatementWith(ctx, statement, o.Signer, o.Services)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Statement: statement, Digest: predicate.Digest(statement), Bundle: bundle, Algorithm: b.Signing.Algorithm,
		Key: b.Signing.Key, SignedAt: now(), Boundary: b,
	}, nil
}

// boundary completes the predicate with what only the signer knows.
func (o Options) boundary(d *verify.Derived, now time.Time) (predicate.Boundary, error) {
	b := d.Boundary()
	collected, err := manifest.ParseTime(b.Collected)
	if err != nil {
		return b, fmt.Errorf("the run's end %.40q: %w", b.Collected, err)
	}
	validity := o.Validity
	if validity == 0 {
		validity = DefaultValidity
	}
	expires := collected.Add(validity)
	switch {
	case now.Before(collected.Add(-verify.ClockSkew)):
		return b, fmt.Errorf("the run ended on %s, but this machine's clock says %s: set the clock", b.Collected, manifest.FormatTime(now))
	case now.Before(collected):
		now = collected
	}
	if !expires.After(now) {
		return b, fmt.Errorf("the run ended on %s; an attestation of it would have expired on %s: run the battery again", b.Collected, manifest.FormatTime(expires))
	}
	algorithm, err := verify.Algorithm(o.Signer.GetPublicKey())
	if err != nil {
		return b, err
	}
	b.Attested, b.Expires = manifest.FormatTime(now), manifest.FormatTime(expires)
	b.Signing = predicate.Signing{Algorithm: algorithm, Key: o.Signer.KeyName()}
	return b, nil
}

// install writes the files of one signature, the bundle last. When one fails,
// those that were not there before are taken away again.
func install(dir string, signed packet.Memory) (err error) {
	var fresh []string
	defer func() {
		if err != nil {
			for _, path := range fresh {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, name := range []string{packet.ThreatModelMD, packet.ThreatModelJSON, packet.RedTeamFile, packet.AttestationFile} {
		data, ok := signed[name]
		if !ok {
			continue
		}
		path := filepath.Join(dir, name)
		_, before := os.Lstat(path)
		if err = files.Write(path, data, 0o644); err != nil {
			return err
		}
		if errors.Is(before, fs.ErrNotExist) {
			fresh = append(fresh, path)
		}
	}
	// A re-run of the attestation before is not one of this attestation.
	err = os.Remove(filepath.Join(dir, packet.VerificationFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
