// Package judge turns what both sides saw into an outcome. It is one pure
// function over the observations of the control and the attack run, shared by
// the battery, which records outcomes, and the verifier, which recomputes them.
//
// The rules, in order:
//
//  1. An attack that fired is escaped, whatever else was seen: a canary was
//     obtained by the probe or reached a witness, the probe read back the
//     witness's proof, a witness saw the nonce where it must not arrive, or a
//     wall that a technique checks for is not there.
//  2. A variant whose requirement the stack does not meet is not-applicable; the
//     requirement must be one that the catalogue lists for the technique.
//  3. A control that did not fire proves nothing: inconclusive.
//  4. A crash, a missing tool, an error, a filter that changed, or a timeout
//     where a refusal is the expected sign: inconclusive.
//  5. A local technique that ran and found nothing is contained.
//  6. Blocked needs an allowed path that lived throughout, and a refusal that is
//     attributable to this attempt: the probe was told no, or the proxy or the
//     packet filter recorded a denial of it. Where code of the image ran beside
//     the probe, only the record from outside counts.
package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/catalog"
)

// Outcome is the judge's word for one technique variant or one vector.
type Outcome string

// The outcomes. NotTested is a vector's only: none of its techniques was
// conclusive.
const (
	Blocked       Outcome = "blocked"
	Contained     Outcome = "contained"
	Escaped       Outcome = "escaped"
	Inconclusive  Outcome = "inconclusive"
	NotApplicable Outcome = "not-applicable"
	NotTested     Outcome = "not-tested"
)

// Reason codes, stable.
const (
	ReasonCanary          = "canary-obtained"
	ReasonProof           = "proof-read"
	ReasonArrival         = "witness-arrival"
	ReasonCondition       = "condition-met"
	ReasonRefused         = "refused"
	ReasonProxyDenied     = "denied-by-proxy"
	ReasonProxyRedacted   = "redacted-by-proxy"
	ReasonFilterDenied    = "denied-by-filter"
	ReasonNothingUsable   = "nothing-usable"
	ReasonNeeds           = "requirement-not-met"
	ReasonBadRequirement  = "requirement-not-of-technique"
	ReasonAttempted       = "not-applicable-but-attempted"
	ReasonUnknownSign     = "unknown-sign"
	ReasonControlSilent   = "control-silent"
	ReasonNoAttempt       = "no-attempt"
	ReasonCrashed         = "probe-crashed"
	ReasonProbeError      = "probe-error"
	ReasonMissing         = "tool-missing"
	ReasonTimeout         = "timeout"
	ReasonFilterChanged   = "filter-changed"
	ReasonHeartbeatLost   = "heartbeat-lost"
	ReasonContradiction   = "sides-contradict"
	ReasonNotAttributable = "no-attributable-refusal"
)

// Verdicts of an enforcement observation that count as a refusal.
const (
	VerdictDeny   = "deny"
	VerdictRedact = "redact"
)

// Verdict is the outcome of one technique variant with its reason code.
type Verdict struct {
	Outcome  Outcome
	Reason   string
	Findings []manifest.Finding
}

// Proofs are the answers that only the witness can give to the two nonces of
// a technique variant (see battery/witness/nonce).
type Proofs struct{ Control, Attack string }

// Judge decides one technique variant from what is recorded in e. It reads
// neither e.Outcome nor e.Reason.
func Judge(t catalog.Technique, e manifest.Technique, p Proofs) Verdict {
	v := decide(t, e, p)
	v.Findings = append(permitted(t, e.Attack), exposures(e.Attack)...)
	return v
}

func decide(t catalog.Technique, e manifest.Technique, p Proofs) Verdict {
	if reason := fired(t, e.Attack, p.Attack); reason != "" {
		return Verdict{Outcome: Escaped, Reason: reason}
	}
	if e.NotApplicable != "" {
		if attempted(e.Control) || attempted(e.Attack) {
			return Verdict{Outcome: Inconclusive, Reason: ReasonAttempted}
		}
		if !slices.Contains(t.RequiresOf(e.Variant), catalog.Requirement(e.NotApplicable)) {
			return Verdict{Outcome: Inconclusive, Reason: ReasonBadRequirement}
		}
		return Verdict{Outcome: NotApplicable, Reason: ReasonNeeds}
	}
	if fired(t, e.Control, p.Control) == "" {
		return Verdict{Outcome: Inconclusive, Reason: ReasonControlSilent}
	}
	if !e.Attack.FilterIntact {
		return Verdict{Outcome: Inconclusive, Reason: ReasonFilterChanged}
	}
	return conclude(t, e.Attack)
}

// conclude judges an attack that did not fire and whose control did.
func conclude(t catalog.Technique, a manifest.Phase) Verdict {
	sign, ok := attempt(a)
	if !ok {
		return Verdict{Outcome: Inconclusive, Reason: ReasonNoAttempt}
	}
	denied := denial(a)
	switch sign {
	case manifest.SignCrashed:
		return Verdict{Outcome: Inconclusive, Reason: ReasonCrashed}
	case manifest.SignMissing:
		return Verdict{Outcome: Inconclusive, Reason: ReasonMissing}
	case manifest.SignReached:
		return Verdict{Outcome: Inconclusive, Reason: ReasonContradiction}
	case manifest.SignTimeout:
		if t.Expect == catalog.ExpectRefusal && !t.ImageCode {
			return Verdict{Outcome: Inconclusive, Reason: ReasonTimeout}
		}
	case manifest.SignError:
		if !t.ImageCode || denied == "" {
			return Verdict{Outcome: Inconclusive, Reason: ReasonProbeError}
		}
	case manifest.SignAbsent:
		if t.Local {
			return Verdict{Outcome: Contained, Reason: ReasonNothingUsable}
		}
	case manifest.SignRefused:
		if denied == "" && !t.ImageCode && t.Expect == catalog.ExpectRefusal {
			denied = ReasonRefused
		}
	case manifest.SignClosed, manifest.SignAnswered, manifest.SignSent: // only a record from outside can tell
	default:
		return Verdict{Outcome: Inconclusive, Reason: ReasonUnknownSign}
	}
	if denied == "" {
		return Verdict{Outcome: Inconclusive, Reason: ReasonNotAttributable}
	}
	if !a.Heartbeat.Alive() {
		return Verdict{Outcome: Inconclusive, Reason: ReasonHeartbeatLost}
	}
	return Verdict{Outcome: Blocked, Reason: denied}
}

// fired tells whether the attempt of a phase succeeded, and by which sign: a
// reason code, or "" when it did not.
func fired(t catalog.Technique, ph manifest.Phase, proof string) string {
	for _, o := range ph.Observations {
		if len(o.Obtained) > 0 && (o.Side == manifest.SideProbe || o.Side == manifest.SideWitness) && !carried(t, o) {
			return ReasonCanary
		}
	}
	switch t.Proof {
	case catalog.ProofCanary:
		return ""
	case catalog.ProofCondition:
		for _, o := range ph.Observations {
			if o.Side == manifest.SideProbe && o.Sign == manifest.SignReached {
				return ReasonCondition
			}
		}
		return ""
	}
	for _, o := range ph.Observations {
		switch o.Side {
		case manifest.SideWitness:
			if !slices.Contains(t.Permits, o.Service) {
				return ReasonArrival
			}
		case manifest.SideProbe:
			if proof != "" && o.Proof == proof && len(t.Permits) == 0 {
				return ReasonProof
			}
		}
	}
	return ""
}

// carried tells whether a witness received the canary at a service at which the
// technique's own request must carry it, because the policy injects it there.
func carried(t catalog.Technique, o manifest.Observation) bool {
	return o.Side == manifest.SideWitness && slices.Contains(t.Permits, o.Service)
}

// attempt returns the sign of the attempt; ok is false when no authenticated
// result or runner's record exists. With several results the least conclusive
// one counts.
func attempt(ph manifest.Phase) (sign string, ok bool) {
	for _, o := range ph.Observations {
		if o.Side != manifest.SideProbe && o.Side != manifest.SideRunner {
			continue
		}
		said := o.Sign
		if o.Side == manifest.SideRunner {
			said = manifest.SignCrashed // the runner only ever says that nothing arrived
		}
		if said == manifest.SignRefused && o.Status >= 502 && o.Status <= 504 {
			said = manifest.SignError // a gateway that failed has refused nothing
		}
		if !ok || weight(said) > weight(sign) {
			sign = said
		}
		ok = true
	}
	return sign, ok
}

// weight orders signs by how much they weaken a conclusion.
func weight(sign string) int {
	order := []string{manifest.SignRefused, manifest.SignSent, manifest.SignAbsent, manifest.SignClosed, manifest.SignAnswered,
		manifest.SignTimeout, manifest.SignReached, manifest.SignMissing, manifest.SignError, manifest.SignCrashed}
	if i := slices.Index(order, sign); i >= 0 {
		return i
	}
	return len(order)
}

// attempted reports whether anybody inside tried.
func attempted(ph manifest.Phase) bool {
	_, ok := attempt(ph)
	return ok
}

// denial returns the reason code of a refusal recorded by the enforcement for
// this very attempt, or "": it comes from the sandbox that the attempt ran in and
// lies in the attempt's time.
func denial(ph manifest.Phase) string {
	from, to := span(ph)
	for _, o := range ph.Observations {
		if (o.Side != manifest.SideProxy && o.Side != manifest.SideFilter) || (o.Sandbox != "" && o.Sandbox != ph.Sandbox) {
			continue
		}
		at, err := manifest.ParseTime(o.Time)
		if err != nil || at.Before(from) || at.After(to) {
			continue
		}
		switch {
		case o.Side == manifest.SideProxy && o.Verdict == VerdictDeny:
			return ReasonProxyDenied
		case o.Side == manifest.SideProxy && o.Verdict == VerdictRedact:
			return ReasonProxyRedacted
		case o.Side == manifest.SideFilter && o.Verdict == VerdictDeny:
			return ReasonFilterDenied
		}
	}
	return ""
}

// slack is how far the clocks of the sandbox and of the enforcement may be apart.
const slack = 3 * time.Second

// span is the time of the phase's attempts, as the probe says.
func span(ph manifest.Phase) (from, to time.Time) {
	for _, o := range ph.Observations {
		if o.Side != manifest.SideProbe {
			continue
		}
		start, err := manifest.ParseTime(o.Time)
		if err != nil {
			continue
		}
		end := start.Add(time.Duration(o.Millis)*time.Millisecond + slack)
		if start = start.Add(-slack); from.IsZero() || start.Before(from) {
			from = start
		}
		if end.After(to) {
			to = end
		}
	}
	return from, to
}

// exposureMark begins the detail of a probe's observation that is no way out by
// itself but would help one (package probes/kit writes it).
const exposureMark = "exposure: "

// exposures lists facts that would help an escape.
func exposures(ph manifest.Phase) []manifest.Finding {
	var out []manifest.Finding
	for _, o := range ph.Observations {
		if fact, ok := strings.CutPrefix(o.Detail, exposureMark); ok && o.Side == manifest.SideProbe {
			out = append(out, manifest.Finding{Kind: manifest.FindingExposure, Detail: fact})
		}
	}
	return out
}

// permitted lists arrivals over edges that the policy itself allows.
func permitted(t catalog.Technique, ph manifest.Phase) []manifest.Finding {
	if t.Proof != catalog.ProofReach {
		return nil
	}
	var out []manifest.Finding
	for _, o := range ph.Observations {
		if o.Side != manifest.SideWitness || !slices.Contains(t.Permits, o.Service) {
			continue
		}
		f := manifest.Finding{Kind: manifest.FindingPermitted, Detail: "arrived at " + o.Service}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
