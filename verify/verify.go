package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
)

// Verify checks evidence and reports every line. It never returns early for
// want of one check, and it never uses bytes that it did not authenticate.
//
// Who verifies many keeps a Verifier.
func Verify(in Input) Report {
	return NewVerifier(in.TrustedRoot, in.TrustedRootDigest, in.Catalogue).Verify(in)
}

// verification is the state of one Verify.
type verification struct {
	lines
	in       Input
	shared   *Verifier
	auth     *authenticator
	report   Report
	evidence *Evidence
	boundary predicate.Boundary
	derived  *Derived
	signed   time.Time
}

// run goes through the checks in order.
func (v *verification) run() {
	data, file, ok := v.attestation()
	if !ok || !v.authenticator() {
		v.unauthenticated()
		return
	}
	v.report.Bundle = predicate.Digest(data)
	auth := v.auth.authenticate(data, file, &v.lines)
	if auth == nil || !v.statement(auth, file) {
		v.unauthenticated()
		return
	}
	v.subject()
	v.packet()
	v.claims()
	v.standing()
	v.freshness()
	v.rerun()
	v.redTeam()
	v.threatModel()
	v.scorecard()
}

// attestation finds the bundle.
func (v *verification) attestation() (data []byte, file string, ok bool) {
	if v.in.Bundle != nil {
		return v.in.Bundle, "", true
	}
	if v.in.Packet == nil {
		v.fail(CheckParse, CodeBundleMissing, "neither a packet nor a bundle was given", "")
		return nil, "", false
	}
	data, err := readBundleFile(v.in.Packet, packet.AttestationFile)
	if errors.Is(err, fs.ErrNotExist) {
		v.fail(CheckParse, CodeBundleMissing, "the packet carries no attestation: sign it with wallproof attest", packet.AttestationFile)
		v.looseManifest()
		return nil, "", false
	}
	if err != nil {
		check, code := CheckParse, CodeBundleMalformed
		if reason := packet.ReasonOf(err); reason != "" {
			check, code = CheckPacket, Code(reason)
		}
		v.fail(check, code, err.Error(), packet.AttestationFile)
		return nil, "", false
	}
	return data, packet.AttestationFile, true
}

// looseManifest says whether an unsigned packet is at least complete, because
// that is what somebody whose run was interrupted needs to know. It yields no
// passing line.
func (v *verification) looseManifest() {
	f, err := packet.Open(v.in.Packet, packet.ManifestFile)
	if err != nil {
		v.fail(CheckManifest, CodePacketIncomplete, "the packet has no manifest: it is incomplete", packet.ManifestFile)
		return
	}
	defer f.Close()
	if _, err := manifest.Read(f); err != nil {
		message := err.Error()
		switch manifest.ReasonOf(err) {
		case manifest.ReasonEmpty, manifest.ReasonCutLine, manifest.ReasonIncomplete:
			message = "the packet is incomplete: " + message
		}
		v.fail(CheckManifest, Code(manifest.ReasonOf(err)), message, evidenceLine(err))
	}
}

func readBundleFile(p fs.FS, name string) ([]byte, error) {
	return packet.ReadDocument(p, name)
}

func (v *verification) authenticator() bool {
	a := &authenticator{trust: v.in.Trust, shared: v.shared, at: v.in.At, require: v.in.Require}
	// A root that was given must be good even where no signature needs it.
	if v.shared.given {
		if _, err := v.shared.root(); err != nil {
			v.fail(CheckSigner, CodeTrustedRoot, err.Error(), "")
			return false
		}
	}
	v.report.TrustedRoot = v.shared.describe(v.in.At)
	v.auth = a
	return true
}

// unauthenticated reports every check that was not reached.
func (v *verification) unauthenticated() {
	done := map[string]bool{}
	for _, c := range v.list {
		done[c.Name] = true
	}
	for _, name := range Order() {
		if !done[name] {
			v.skip(name, CodeNotAuthenticated, "rests on bytes that were not authenticated", "")
		}
	}
}

// statement reads the signed bytes.
func (v *verification) statement(auth *authentic, file string) bool {
	v.report.Attestation, v.report.Signer, v.signed = auth.digest, &auth.signer, auth.signed
	if !auth.signed.IsZero() {
		v.report.Times.Signed = manifest.FormatTime(auth.signed)
	}
	s, unknown, err := predicate.ParseStatement(auth.payload)
	if err != nil {
		v.fail(CheckStatement, statementCode(err), err.Error(), file)
		return false
	}
	if err := auth.whole(); err != nil {
		v.fail(CheckSignature, CodeBundleRefused, err.Error(), file)
		return false
	}
	if s.PredicateType != predicate.TypeBoundary {
		v.fail(CheckStatement, CodePredicateType, fmt.Sprintf("the statement's predicate type is %.200q, want %q", s.PredicateType, predicate.TypeBoundary), file)
		return false
	}
	more, err := s.Decode(&v.boundary)
	if err != nil {
		v.fail(CheckStatement, CodePredicateMalformed, err.Error(), file)
		return false
	}
	unknown = append(unknown, more...)
	v.evidence = &Evidence{Statement: s, Payload: auth.payload, Boundary: v.boundary, Unknown: unknown}
	v.pass(CheckStatement, CodeStatementOK, "in-toto statement v1, trust boundary v1", file)
	if len(unknown) > 0 {
		v.skip(CheckStatement, CodeStatementUnknown, fmt.Sprintf("signed, but not understood by this version: %.400s", fmt.Sprint(unknown)), file)
	}
	b := v.boundary
	auth.signer.Key = b.Signing.Key
	v.report.Subject = s.Subject[0].Sha256()
	v.report.Times.Collected, v.report.Times.Attested = b.Collected, b.Attested
	return true
}

func statementCode(err error) Code {
	switch {
	case errors.Is(err, predicate.ErrNotStatement):
		return CodeStatementType
	case errors.Is(err, predicate.ErrSubjects):
		return CodeSubjectCount
	}
	return CodeStatementMalformed
}

// subject compares the image that was asked about. An index and one of its
// platform manifests are different things and are never equal by accident.
func (v *verification) subject() {
	have, b := v.report.Subject, v.boundary
	if have != b.Image.Digest {
		v.fail(CheckSubject, CodeSubjectImage, "the subject is "+have+", but the predicate is about "+b.Image.Digest, "predicate.image.digest")
		return
	}
	asked := v.in.Image
	switch {
	case asked == "":
		v.pass(CheckSubject, CodeSubjectUnasked, "image "+have+"; no other was asked about", "")
	case predicate.CheckDigest(asked) != nil:
		v.fail(CheckSubject, CodeSubjectMalformed, predicate.CheckDigest(asked).Error(), "")
	case asked == have:
		v.pass(CheckSubject, CodeSubjectOK, "the image asked about, "+have, "")
	case asked == b.Image.IndexDigest:
		v.fail(CheckSubject, CodeSubjectIsIndex, "asked about the index "+asked+"; attested is its platform manifest for "+b.Image.Platform+", "+have+": ask about that", "predicate.image.indexDigest")
	default:
		v.fail(CheckSubject, CodeSubjectMismatch, "asked about "+asked+", attested is "+have, "subject")
	}
}

// packet inspects the packet against the statement.
func (v *verification) packet() {
	if v.in.Packet == nil {
		for _, name := range []string{CheckPacket, CheckManifest, CheckObservations, CheckCatalogue, CheckOutcomes, CheckClaims, CheckRedaction} {
			if name == CheckPacket && v.auth.requires(RequirePacket) {
				v.fail(name, CodePacketNotGiven, "the packet is required and was not given", "")
				continue
			}
			v.skip(name, CodePacketNotGiven, "the packet was not given: what it holds is as attested", "")
		}
		return
	}
	i := inspection{packet: v.in.Packet, known: v.shared.known(), policies: &v.shared.policies}
	i.run(&v.boundary)
	v.list = append(v.list, i.list...)
	if i.derived.Manifest == nil || !i.trusted(packet.ManifestFile) {
		return
	}
	v.derived = &i.derived
	v.evidence.Manifest, v.evidence.Judged, v.evidence.Vectors = i.derived.Manifest, i.derived.Judged, i.derived.Vectors
	v.evidence.Redaction, v.evidence.ThreatModel, v.evidence.RedTeam = i.derived.Redaction, i.derived.ThreatModel, i.derived.RedTeam
}

// inOrder sorts lines by the documented order of their checks.
func inOrder(list []Check) []Check {
	order := Order()
	slices.SortStableFunc(list, func(a, b Check) int {
		return slices.Index(order, a.Name) - slices.Index(order, b.Name)
	})
	return list
}
