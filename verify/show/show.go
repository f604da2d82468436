// Package show prints evidence readably, whatever it is: a bundle, a statement, a
// row proof, a packet. It verifies nothing and says so; for people who want to
// know what is in a file before or after asking whether to believe it.
package show

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify"
)

// ErrUnknown means that a file is nothing that this package knows.
var ErrUnknown = errors.New("neither a bundle nor a statement nor a row proof")

// notice stands on top of everything.
const notice = "NOT VERIFIED: this shows what the file says, not whether it is true\n\n"

// printer writes aligned lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) title(s string) { p.printf("%s\n", s) }

// line prints one fact; value and name may come from a hostile file.
func (p *printer) line(name, value string) {
	if value != "" {
		p.printf("  %-16s %s\n", verify.Clean(name), verify.Clean(value))
	}
}

// File prints a bundle, a statement or a row proof.
func File(w io.Writer, data []byte) error {
	p := &printer{w: w}
	p.printf(notice)
	if err := p.file(data); err != nil {
		return err
	}
	return p.err
}

func (p *printer) file(data []byte) error {
	var kind struct {
		MediaType string `json:"mediaType"`
		Type      string `json:"_type"`
		Schema    string `json:"schema"`
	}
	if _, err := canon.UnmarshalJSON(data, canon.Limits{Bytes: predicate.MaxRowBytes}, &kind); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	switch {
	case kind.MediaType != "":
		return p.bundle(data)
	case kind.Type != "":
		return p.statement(data)
	case kind.Schema == predicate.RowSchema:
		return p.row(data)
	}
	return ErrUnknown
}

func (p *printer) bundle(data []byte) error {
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	p.title("Sigstore bundle")
	p.line("media type", b.MediaType)
	p.line("digest", predicate.Digest(data))
	p.material(b.GetVerificationMaterial())
	env := b.GetDsseEnvelope()
	if env == nil {
		p.line("content", "a signed message, no envelope")
		return nil
	}
	p.line("payload type", env.GetPayloadType())
	p.line("signatures", strconv.Itoa(len(env.GetSignatures())))
	p.line("attestation", predicate.Digest(env.GetPayload()))
	p.printf("\n")
	if env.GetPayloadType() != predicate.PayloadType {
		return nil
	}
	return p.statement(env.GetPayload())
}

// material prints who signed, when, and where it is logged.
func (p *printer) material(m *protobundle.VerificationMaterial) {
	if k := m.GetPublicKey(); k != nil {
		p.line("signed by", "a key, hint "+k.GetHint())
	}
	if raw := m.GetCertificate().GetRawBytes(); raw != nil {
		p.certificate(raw)
	}
	for _, e := range m.GetTlogEntries() {
		p.line("log entry", fmt.Sprintf("%s %s, index %d", e.GetKindVersion().GetKind(), e.GetKindVersion().GetVersion(), e.GetLogIndex()))
	}
	if n := len(m.GetTimestampVerificationData().GetRfc3161Timestamps()); n > 0 {
		p.line("timestamps", strconv.Itoa(n))
	}
}

func (p *printer) certificate(raw []byte) {
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		p.line("signed by", "a certificate that cannot be read: "+err.Error())
		return
	}
	s, err := certificate.SummarizeCertificate(c)
	if err != nil {
		p.line("signed by", "a certificate that cannot be read: "+err.Error())
		return
	}
	p.line("signed by", s.SubjectAlternativeName)
	p.line("issuer", s.Issuer)
	p.line("certificate", c.NotBefore.UTC().Format("2006-01-02 15:04:05")+" to "+c.NotAfter.UTC().Format("2006-01-02 15:04:05"))
}

func (p *printer) statement(data []byte) error {
	s, unknown, err := predicate.ParseStatement(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	p.title("Statement")
	p.line("predicate type", s.PredicateType)
	p.line("subject", strings.TrimSpace(s.Subject[0].Name+" "+s.Subject[0].Sha256()))
	if len(unknown) > 0 {
		p.line("unknown members", strings.Join(unknown, ", "))
	}
	p.printf("\n")
	var b predicate.Boundary
	if s.PredicateType == predicate.TypeBoundary {
		if _, err := s.Decode(&b); err == nil {
			p.boundary(b)
			return nil
		}
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, s.Predicate, "", "  "); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	for line := range strings.Lines(pretty.String()) {
		p.printf("%s\n", verify.Clean(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

func (p *printer) boundary(b predicate.Boundary) {
	p.title("Trust boundary")
	p.line("run", b.RunID)
	p.line("image", b.Image.Reference+" "+b.Image.Digest+" "+b.Image.Platform)
	p.line("index", b.Image.IndexDigest)
	p.line("policy", b.Policy.Digest+", default "+b.Policy.EgressDefault)
	p.line("fabric", b.Fabric.Driver.Name+" "+b.Fabric.Driver.Version+", kernel "+b.Fabric.Host.Kernel+" "+b.Fabric.Host.Arch)
	p.line("proxy", strings.TrimSpace(b.Proxy.Name+" "+b.Proxy.Version)+", "+b.Proxy.Placement)
	p.line("enforcement", strings.TrimSpace(b.Enforcement.State+" "+b.Enforcement.Reason))
	p.line("admission", b.Admission.State)
	p.line("redaction", fmt.Sprintf("%d secrets, %d hits, control %d of %d", b.Redaction.Secrets, b.Redaction.Hits, b.Redaction.Found, b.Redaction.Planted))
	p.line("manifest", fmt.Sprintf("%d lines, head %s", b.Battery.Count, b.Battery.Head))
	p.line("critical escapes", strconv.FormatInt(b.Battery.CriticalEscapes, 10))
	for _, v := range b.Battery.Vectors {
		p.line("  "+v.Vector, v.Outcome+" (severity "+v.Severity+")")
	}
	if t := b.ThreatModel; t != nil {
		p.line("threat model", t.File+" "+t.Digest)
	}
	if r := b.RedTeam; r != nil {
		p.line("red team", fmt.Sprintf("%s, %d critical escapes, %s", r.Engagement, r.CriticalEscapes, r.Attestor))
	}
	p.line("collected", b.Collected)
	p.line("attested", b.Attested)
	p.line("expires", b.Expires)
	p.line("signing", strings.TrimSpace(b.Signing.Algorithm+" "+b.Signing.Key))
	p.line("files", strconv.Itoa(len(b.Files)))
	for _, l := range b.Limits {
		p.line("not asserted", l)
	}
}

func (p *printer) row(data []byte) error {
	r, err := predicate.ParseRow(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	p.title("Manifest row")
	p.line("line", fmt.Sprintf("%d of %d", r.Index, r.Size))
	p.line("proof", fmt.Sprintf("%d hashes", len(r.Proof)))
	p.line("content", r.Line)
	p.printf("\n")
	return p.bundle(r.Attestation)
}

// Packet prints what a packet holds.
func Packet(w io.Writer, fsys fs.FS) error {
	p := &printer{w: w}
	p.printf(notice)
	p.title("Packet")
	index, err := packet.Index(fsys)
	if err != nil {
		p.line("files", err.Error())
	}
	for _, f := range index {
		p.line(f.Path, fmt.Sprintf("%d bytes, sha256:%s", f.Size, f.SHA256))
	}
	p.printf("\n")
	p.manifest(fsys)
	for _, name := range []string{packet.AttestationFile, packet.VerificationFile} {
		data, err := packet.ReadDocument(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			p.printf("\n%s: not there\n", name)
			continue
		}
		if err == nil {
			p.printf("\n%s\n", name)
			err = p.bundle(data)
		}
		if err != nil {
			p.line("unreadable", err.Error())
		}
	}
	return p.err
}

func (p *printer) manifest(fsys fs.FS) {
	p.title("Manifest")
	f, err := packet.Open(fsys, packet.ManifestFile)
	if err != nil {
		p.line("unreadable", err.Error())
		return
	}
	defer f.Close()
	m, err := manifest.Read(f)
	if err != nil {
		p.line("unreadable", err.Error())
		return
	}
	p.line("run", m.Run.RunID+", "+m.Run.Started+" to "+m.Terminal.Ended)
	p.line("lines", strconv.FormatInt(m.Summary.Count, 10))
	for _, vector := range slices.Sorted(maps.Keys(m.Terminal.Totals)) {
		var parts []string
		for _, outcome := range slices.Sorted(maps.Keys(m.Terminal.Totals[vector])) {
			parts = append(parts, fmt.Sprintf("%d %s", m.Terminal.Totals[vector][outcome], outcome))
		}
		p.line("  "+vector, strings.Join(parts, ", "))
	}
}
