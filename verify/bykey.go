package verify

import (
	"errors"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// byKey verifies a bundle against the one trusted key. No certificate counts;
// timestamps and log entries are checked where the bundle has them.
func (a *authenticator) byKey(e *envelope, out *authentic, file string, l *lines) bool {
	algorithm, err := Algorithm(a.trust.Key)
	if err != nil {
		l.fail(CheckSigner, CodeTrustAlgorithm, err.Error(), "")
		return false
	}
	fingerprint, err := Fingerprint(a.trust.Key)
	if err != nil {
		l.fail(CheckSigner, CodeTrustAlgorithm, err.Error(), "")
		return false
	}
	var tr root.TrustedMaterial
	if e.witnessed() {
		if tr, err = a.shared.root(); err != nil {
			l.fail(CheckSigner, CodeTrustedRoot, err.Error(), "")
			return false
		}
	}
	material, err := keyMaterial(a.trust.Key, tr)
	if err != nil {
		l.fail(CheckSigner, CodeTrustAlgorithm, err.Error(), "")
		return false
	}
	if e.content.Certificate() != nil {
		l.fail(CheckSigner, CodeSignerNotKey, "the bundle is signed by a certificate, but a key was given: ask for its identity instead", file)
		return false
	}
	if err := verify.VerifySignature(e.sig, e.content, material); err != nil {
		l.fail(CheckSignature, CodeSignatureInvalid, "the signature is not by the trusted key over these bytes: "+err.Error(), file)
		return false
	}
	l.pass(CheckSignature, CodeSignatureOK, algorithm+" over the exact bytes of the statement", file)
	out.signer = Signer{Kind: "key", Algorithm: algorithm, Fingerprint: fingerprint}
	l.pass(CheckSigner, CodeSignerKey, "the trusted key "+fingerprint, "")
	out.whole = wholly(e.bundle, material, verify.WithKey(), verify.WithNoObserverTimestamps())
	return a.keyTime(e, material, out, file, l)
}

// keyTime reports time and transparency of a key signature. Both are optional:
// what is there must verify where its authority is known, and counts for nothing
// where it is not.
func (a *authenticator) keyTime(e *envelope, material root.TrustedMaterial, out *authentic, file string, l *lines) bool {
	logTimes, logErr, logged := logTimes(e, material)
	stamps, stampErr, stamped := stampTimes(e, material)
	if logErr != nil {
		logTimes = nil
	}
	switch {
	case stamped && len(stamps) == 0 && a.shared.given:
		l.fail(CheckTime, CodeTimeTimestampBad, "a timestamp that no authority of the trusted root gave: "+stampErr.Error(), file)
		return false
	case len(stamps)+len(logTimes) > 0:
		out.signedBefore(stamps, logTimes, file, l)
	case a.requires(RequireTimestamp):
		l.fail(CheckTime, CodeTimeMissing, "no trusted time of signing, and it is required", file)
		return false
	default:
		out.signer.Time = timeAsserted
		l.skip(CheckTime, CodeTimeAsserted, "no trusted timestamp: the time of signing is what the signer says", file)
	}
	return a.transparency(e, logged, logErr, out, file, l)
}

func (a *authenticator) transparency(e *envelope, logged bool, err error, out *authentic, file string, l *lines) bool {
	switch {
	case logged && err == nil:
		out.signer.LogIndex = e.logIndex()
		l.pass(CheckTransparency, CodeTransparencyOK, "in a transparency log at index "+out.signer.LogIndex, file)
	case logged && a.shared.given:
		l.fail(CheckTransparency, CodeTransparencyBad, err.Error(), file)
		return false
	case a.requires(RequireLog):
		l.fail(CheckTransparency, CodeTransparencyMissing, "no log entry of a log in the trusted root, and it is required", file)
		return false
	case logged:
		l.skip(CheckTransparency, CodeTransparencyNone, "has a log entry, but of no log in the trusted root", file)
	default:
		l.skip(CheckTransparency, CodeTransparencyNone, "not in a transparency log", file)
	}
	return true
}

// stampTimes verifies RFC 3161 timestamps. stamped tells whether there are any.
func stampTimes(e *envelope, material root.TrustedMaterial) (times []*root.Timestamp, err error, stamped bool) {
	if len(e.bundle.GetVerificationMaterial().GetTimestampVerificationData().GetRfc3161Timestamps()) == 0 {
		return nil, nil, false
	}
	times, refused, err := verify.VerifySignedTimestamp(e.bundle, material)
	if err == nil && len(times) == 0 {
		err = errors.Join(refused...)
	}
	if err == nil && len(refused) > 0 {
		// One good timestamp does not make a bad one beside it harmless.
		return nil, errors.Join(refused...), true
	}
	return times, err, true
}

// signedBefore keeps the first of the trusted times, of which there is at least
// one. The signature existed at each of them, so it is the first that tells most.
func (out *authentic) signedBefore(stamps []*root.Timestamp, logs []root.Timestamp, file string, l *lines) {
	code, kind, by := CodeTimeLog, "log", "a log"
	for _, t := range logs {
		out.first(t.Time)
	}
	for _, t := range stamps {
		if out.first(t.Time) {
			code, kind, by = CodeTimeTimestamp, "timestamp", "a timestamp authority"
		}
	}
	out.signer.Time = kind
	l.pass(CheckTime, code, "signed before "+out.signed.UTC().Format(timeFormat)+", by "+by, file)
}

// first takes a trusted time if none so far is earlier.
func (out *authentic) first(t time.Time) bool {
	if !out.signed.IsZero() && out.signed.Before(t) {
		return false
	}
	out.signed = t
	return true
}
