package verify

import (
	"crypto/x509"
	"fmt"
	"regexp"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// timeFormat is how reports write the time of a signature.
const timeFormat = time.RFC3339

// byIdentity verifies a bundle whose signer is named by a short-lived
// certificate.
func (a *authenticator) byIdentity(e *envelope, out *authentic, file string, l *lines) bool {
	identity, err := a.trust.Identity.matcher()
	if err != nil {
		l.fail(CheckSigner, CodeIdentityPattern, err.Error(), "")
		return false
	}
	leaf := e.content.Certificate()
	if leaf == nil {
		l.fail(CheckSigner, CodeSignerNotIdentity, "the bundle is signed by a bare key, but an identity was given: ask for the key instead", file)
		return false
	}
	tr, err := a.shared.root()
	if err != nil {
		l.fail(CheckSigner, CodeTrustedRoot, err.Error(), "")
		return false
	}
	if err := verify.VerifySignature(e.sig, e.content, tr); err != nil {
		l.fail(CheckSignature, CodeSignatureInvalid, "the signature is not by the certificate's key over these bytes: "+err.Error(), file)
		return false
	}
	algorithm, err := Algorithm(leaf.PublicKey)
	if err != nil {
		l.fail(CheckSignature, CodeTrustAlgorithm, err.Error(), file)
		return false
	}
	l.pass(CheckSignature, CodeSignatureOK, algorithm+" over the exact bytes of the statement", file)
	times, ok := a.identityTimes(e, tr, out, file, l)
	if !ok || !a.certificate(leaf, tr, times, file, l) || !a.named(leaf, identity, algorithm, out, file, l) {
		return false
	}
	var entity verify.SignedEntity = e.bundle
	var material root.TrustedMaterial = tr
	if out.signer.Time == timeAsserted {
		entity, material = assertedEntity{e.bundle}, assertedMaterial{tr, a.at}
	}
	out.whole = wholly(entity, material, verify.WithCertificateIdentity(identity), a.trust.Identity.options()...)
	return true
}

// assertedEntity and assertedMaterial let the library's own run take the moment asked
// about for the time of signing, where no authority gives one. It would take the
// clock's, and then neither --at nor a log's time would count.
type (
	assertedEntity   struct{ *bundle.Bundle }
	assertedMaterial struct {
		root.TrustedMaterial
		at time.Time
	}
)

// Timestamps is one that assertedMaterial takes for the moment asked about.
func (assertedEntity) Timestamps() ([][]byte, error) { return [][]byte{nil}, nil }

// TimestampingAuthorities is the one that says so.
func (m assertedMaterial) TimestampingAuthorities() []root.TimestampingAuthority {
	return []root.TimestampingAuthority{m}
}

// Verify implements root.TimestampingAuthority.
func (m assertedMaterial) Verify(_, _ []byte) (*root.Timestamp, error) {
	return &root.Timestamp{Time: m.at}, nil
}

// matcher anchors patterns at both ends: a pattern describes the whole identity.
func (i *Identity) matcher() (verify.CertificateIdentity, error) {
	if (i.SAN == "") == (i.SANPattern == "") || (i.Issuer == "") == (i.IssuerPattern == "") {
		return verify.CertificateIdentity{}, fmt.Errorf("name exactly one identity and one issuer, each exact or as a pattern")
	}
	san, err := anchored(i.SANPattern)
	if err != nil {
		return verify.CertificateIdentity{}, fmt.Errorf("identity pattern: %w", err)
	}
	issuer, err := anchored(i.IssuerPattern)
	if err != nil {
		return verify.CertificateIdentity{}, fmt.Errorf("issuer pattern: %w", err)
	}
	return verify.NewShortCertificateIdentity(i.Issuer, issuer, i.SAN, san)
}

func anchored(pattern string) (string, error) {
	if pattern == "" {
		return "", nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return "", err // so that "a)|(b" cannot escape from the group below
	}
	return `\A(?:` + pattern + `)\z`, nil
}

func (i *Identity) options() []verify.VerifierOption {
	var opts []verify.VerifierOption
	if !i.WithoutSCT {
		opts = append(opts, verify.WithSignedCertificateTimestamps(1))
	}
	if !i.WithoutLog {
		opts = append(opts, verify.WithTransparencyLog(1))
	}
	return append(opts, verify.WithObserverTimestamps(1))
}

// identityTimes finds the trusted times at which the certificate must have been
// valid. An integrated time counts only where the log promised it by signature.
func (a *authenticator) identityTimes(e *envelope, tr *root.TrustedRoot, out *authentic, file string, l *lines) ([]time.Time, bool) {
	logTimes, logErr, logged := logTimes(e, tr)
	if logged && logErr != nil {
		l.fail(CheckTransparency, CodeTransparencyBad, logErr.Error(), file)
		return nil, false
	}
	stamps, stampErr, stamped := stampTimes(e, tr)
	if stamped && stampErr != nil && (a.shared.given || len(logTimes) == 0) {
		l.fail(CheckTime, CodeTimeTimestampBad, stampErr.Error(), file)
		return nil, false
	}
	var times []time.Time
	for _, t := range stamps {
		times = append(times, t.Time)
	}
	for _, t := range logTimes {
		times = append(times, t.Time)
	}
	switch {
	case len(times) > 0:
		out.signedBefore(stamps, logTimes, file, l)
	case a.trust.Identity.WithoutTimestamp && !a.requires(RequireTimestamp):
		out.signer.Time = timeAsserted
		times = append(times, a.at)
		l.skip(CheckTime, CodeTimeAsserted, "no trusted timestamp: the certificate is checked at the time asked about", file)
	default:
		l.fail(CheckTime, CodeTimeMissing, "a short-lived certificate needs a trusted time of signing", file)
		return nil, false
	}
	if !logged && !a.trust.Identity.WithoutLog {
		l.fail(CheckTransparency, CodeTransparencyMissing, "no log entry; a signature by an identity must be in a log", file)
		return nil, false
	}
	return times, a.transparency(e, logged, nil, out, file, l)
}

// certificate checks the chain at each time, and the certificate log.
func (a *authenticator) certificate(leaf *x509.Certificate, tr *root.TrustedRoot, times []time.Time, file string, l *lines) bool {
	// Go cannot parse a subject alternative name of type otherName, which the
	// summary reads by itself; the library drops it from the critical extensions
	// that are left over in its own run as a whole, and so does this copy.
	c := *leaf
	c.UnhandledCriticalExtensions = nil
	var chains [][]*x509.Certificate
	for _, at := range times {
		if at.Before(c.NotBefore) || at.After(c.NotAfter) {
			l.fail(CheckTime, CodeTimeCertificate, fmt.Sprintf("signed at %s, but the certificate was valid from %s to %s",
				at.UTC().Format(timeFormat), c.NotBefore.UTC().Format(timeFormat), c.NotAfter.UTC().Format(timeFormat)), file)
			return false
		}
		var err error
		if chains, err = verify.VerifyLeafCertificate(at, &c, tr); err != nil {
			l.fail(CheckSigner, CodeCertificateChain, "the certificate leads to no authority of the trusted root: "+err.Error(), file)
			return false
		}
	}
	if a.trust.Identity.WithoutSCT {
		return true
	}
	if err := verify.VerifySignedCertificateTimestamp(chains, 1, tr); err != nil {
		l.fail(CheckSigner, CodeCertificateSCT, "the certificate is in no certificate log of the trusted root: "+err.Error(), file)
		return false
	}
	return true
}

// named compares the certificate's identity.
func (a *authenticator) named(leaf *x509.Certificate, want verify.CertificateIdentity, algorithm string, out *authentic, file string, l *lines) bool {
	summary, err := certificate.SummarizeCertificate(leaf)
	if err != nil {
		l.fail(CheckSigner, CodeCertificateChain, err.Error(), file)
		return false
	}
	out.signer.Kind, out.signer.Algorithm = "identity", algorithm
	out.signer.Identity, out.signer.Issuer = summary.SubjectAlternativeName, summary.Issuer
	if out.signer.Fingerprint, err = Fingerprint(leaf.PublicKey); err != nil {
		l.fail(CheckSigner, CodeCertificateChain, err.Error(), file)
		return false
	}
	if err := want.Verify(summary); err != nil {
		l.fail(CheckSigner, CodeIdentityMismatch, fmt.Sprintf("signed by %.200q of %.200q: %v", summary.SubjectAlternativeName, summary.Issuer, err), file)
		return false
	}
	l.pass(CheckSigner, CodeSignerIdentity, summary.SubjectAlternativeName+", vouched for by "+summary.Issuer, file)
	return true
}
