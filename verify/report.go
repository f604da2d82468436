package verify

import (
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
)

// Status is the result of one check.
type Status string

// The statuses.
const (
	Pass       Status = "pass"
	Fail       Status = "fail" // forged, broken or not verifiable
	Held       Status = "held" // genuine, but not to be shown as a claim
	NotChecked Status = "not-checked"
)

// Verdict is the result of a verification.
type Verdict string

// The verdicts.
const (
	Valid       Verdict = "valid"
	VerdictHeld Verdict = "held"
	Invalid     Verdict = "invalid"
)

// Exit codes of every command.
const (
	ExitValid   = 0
	ExitUsage   = 1
	ExitInvalid = 2
	ExitHeld    = 3
)

// Exit maps a verdict to the exit code.
func (v Verdict) Exit() int {
	switch v {
	case Valid:
		return ExitValid
	case VerdictHeld:
		return ExitHeld
	}
	return ExitInvalid
}

// Check is one line of a report.
type Check struct {
	Name     string `json:"name"`
	Status   Status `json:"status"`
	Code     Code   `json:"code"`
	Message  string `json:"message"`
	Evidence string `json:"evidence"` // where to look: a file, a line, a member; may be empty
}

// Times are the moments that matter. All but Checked may be empty.
type Times struct {
	Checked   string `json:"checked"`             // the moment that the report answers for
	Collected string `json:"collected,omitempty"` // end of the run
	Attested  string `json:"attested,omitempty"`  // as the signer says
	Signed    string `json:"signed,omitempty"`    // by a trusted timestamp or log
	Expires   string `json:"expires,omitempty"`   // after the verifier's cap
	Verified  string `json:"verified,omitempty"`  // of the signed re-run
}

// Signer is who signed, as far as it was established.
type Signer struct {
	Kind        string `json:"kind"` // "key" or "identity"
	Algorithm   string `json:"algorithm,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"` // SHA-256 of the public key, "sha256:…"
	Key         string `json:"key,omitempty"`         // as the signer names it, e.g. a KMS URI with its version
	Identity    string `json:"identity,omitempty"`
	Issuer      string `json:"issuer,omitempty"`
	LogIndex    string `json:"logIndex,omitempty"`
	Time        string `json:"time,omitempty"` // source of Times.Signed: "timestamp", "log" or "asserted"
}

// TrustedRoot says which root identities, timestamps and logs were checked
// against. Empty when none was needed.
type TrustedRoot struct {
	Source string `json:"source"` // "embedded" or "given"
	Digest string `json:"digest"`
	Date   string `json:"date,omitempty"` // of the embedded one
	Age    string `json:"age,omitempty"`  // whole days, "103d"
}

// Report is the result of Verify. Marshalled as JSON it is the documented
// object.
type Report struct {
	Verdict     Verdict      `json:"verdict"`
	Checks      []Check      `json:"checks"`
	Attestation string       `json:"attestation,omitempty"` // digest of the signed statement's bytes
	Bundle      string       `json:"bundle,omitempty"`      // digest of the bundle file
	Subject     string       `json:"subject,omitempty"`     // image digest
	Times       Times        `json:"times"`
	Signer      *Signer      `json:"signer,omitempty"`
	TrustedRoot *TrustedRoot `json:"trustedRoot,omitempty"`

	// Evidence is what the claim rests on. It is nil unless the statement was
	// authenticated.
	Evidence *Evidence `json:"-"`
}

// Evidence is authenticated content. Members that come from the packet are set
// only when the packet was given and its digests are the signed ones.
type Evidence struct {
	Statement predicate.Statement
	Payload   []byte // the signed bytes
	Boundary  predicate.Boundary
	Unknown   []string // members that this version does not know

	Manifest    *manifest.Manifest
	Judged      []manifest.Technique // the entries with outcome, reason and findings as judged here
	Vectors     []judge.Summary      // from Judged
	Redaction   *packet.Redaction
	ThreatModel *predicate.ThreatModel
	RedTeam     *packet.ParsedRedTeam
	Rerun       *Rerun
	Scorecard   *predicate.Scorecard
	Row         any // of VerifyRow: a *manifest.Run, *manifest.Technique or *manifest.Terminal
}

// Rerun is an authenticated verifier re-run.
type Rerun struct {
	VSA    predicate.VSA
	Self   bool // signed by the attester itself
	Signer Signer
	Digest string // of the signed bytes
}

// Failed returns the lines that fail or hold, in order.
func (r Report) Failed() []Check {
	var out []Check
	for _, c := range r.Checks {
		if c.Status == Fail || c.Status == Held {
			out = append(out, c)
		}
	}
	return out
}

// Has reports whether a line has this code.
func (r Report) Has(code Code) bool {
	for _, c := range r.Checks {
		if c.Code == code {
			return true
		}
	}
	return false
}

// Partial reports whether nothing but escapes that are not critical holds the
// claim: they take out the invariant, edge and row that they contradict, and
// leave the rest.
func (r Report) Partial() bool {
	held := r.Failed()
	return r.Verdict == VerdictHeld && len(held) > 0 && !slices.ContainsFunc(held, func(c Check) bool { return c.Code != CodeEscape })
}

// Level is the level that a re-run with this report confirms, or "" for none.
func (r Report) Level() string {
	switch {
	case r.Verdict == Valid:
		return predicate.LevelBoundary
	case r.Partial():
		return predicate.LevelPartial
	}
	return ""
}

// verdict derives the verdict from the lines.
func (r *Report) verdict() Verdict {
	v := Valid
	for _, c := range r.Checks {
		switch c.Status {
		case Fail:
			return Invalid
		case Held:
			v = VerdictHeld
		}
	}
	return v
}
