package verify

import (
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/wallproof/wallproof/attest/predicate"
)

var zeroTime time.Time

// timeAsserted is Signer.Time where nobody but the signer vouches for a time.
const timeAsserted = "asserted"

// lines collects the lines of a report.
type lines struct{ list []Check }

// testHookLine, where a test sets it, is told the code of every line of a report.
var testHookLine func(Code)

func (l *lines) add(name string, s Status, code Code, message, evidence string) {
	if testHookLine != nil {
		testHookLine(code)
	}
	l.list = append(l.list, Check{Name: name, Status: s, Code: code, Message: Clean(message), Evidence: Clean(evidence)})
}

func (l *lines) pass(name string, code Code, message, evidence string) {
	l.add(name, Pass, code, message, evidence)
}

func (l *lines) fail(name string, code Code, message, evidence string) {
	l.add(name, Fail, code, message, evidence)
}

func (l *lines) hold(name string, code Code, message, evidence string) {
	l.add(name, Held, code, message, evidence)
}

func (l *lines) skip(name string, code Code, message, evidence string) {
	l.add(name, NotChecked, code, message, evidence)
}

// failed returns the first failing line.
func (l *lines) failed() (Check, bool) {
	for _, c := range l.list {
		if c.Status == Fail {
			return c, true
		}
	}
	return Check{}, false
}

// authenticator checks bundles against one trust.
type authenticator struct {
	trust   Trust
	shared  *Verifier
	at      time.Time
	require []Requirement
}

// authentic is a payload whose signature was verified.
type authentic struct {
	payload []byte
	digest  string
	signer  Signer
	signed  time.Time // by a trusted timestamp or log; else zero

	// whole runs the library's own verification as a whole, so that nothing that
	// it checks beyond the single steps is lost. It comes last, after the
	// statement was read here, because it reads the statement too and would name
	// fewer reasons.
	whole func() error
}

// authenticate checks a bundle from its bytes to its place in a log, and
// returns the payload only when nothing of that failed. What must follow, once
// the payload was read, is a call of whole.
func (a *authenticator) authenticate(data []byte, file string, l *lines) *authentic {
	e, code, err := readBundle(data)
	if err != nil {
		l.fail(CheckParse, code, err.Error(), file)
		return nil
	}
	l.pass(CheckParse, CodeBundleOK, "Sigstore bundle "+bundleVersion, file)
	if e.kind != predicate.PayloadType {
		l.fail(CheckSignature, CodePayloadType, fmt.Sprintf("payload type is %.100q, want %q", e.kind, predicate.PayloadType), file)
		return nil
	}
	out := &authentic{payload: e.payload, digest: payloadDigest(e.payload)}
	ok := false
	switch {
	case a.trust.Key != nil && a.trust.Identity == nil:
		ok = a.byKey(e, out, file, l)
	case a.trust.Identity != nil && a.trust.Key == nil:
		ok = a.byIdentity(e, out, file, l)
	default:
		l.fail(CheckSigner, CodeTrustMissing, "say whose signature counts: exactly one of a key and an identity", "")
	}
	if !ok {
		return nil
	}
	return out
}

// wholly prepares the library's own verification as a whole.
func wholly(entity verify.SignedEntity, material root.TrustedMaterial, policy verify.PolicyOption, opts ...verify.VerifierOption) func() error {
	return func() error {
		v, err := verify.NewVerifier(material, append(opts, verify.WithoutStatementPredicate())...)
		if err != nil {
			return err
		}
		_, err = v.Verify(entity, verify.NewPolicy(verify.WithoutArtifactUnsafe(), policy))
		return err
	}
}

func (a *authenticator) requires(r Requirement) bool {
	for _, x := range a.require {
		if x == r {
			return true
		}
	}
	return false
}
