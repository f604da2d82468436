package verify

import (
	"fmt"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
)

// scorecard checks that a scorecard belongs to this attestation. The binding,
// which gate signs, is what keeps it from being edited afterwards; without one
// the scorecard only matches.
func (v *verification) scorecard() {
	if v.in.Scorecard == nil {
		if v.auth.requires(RequireScorecard) {
			v.hold(CheckScorecard, CodeScorecardMissing, "no scorecard, and one is required", "")
			return
		}
		v.skip(CheckScorecard, CodeScorecardNone, "no scorecard was given", "")
		return
	}
	s, err := predicate.ParseScorecard(v.in.Scorecard)
	if err != nil {
		v.fail(CheckScorecard, CodeScorecardMalformed, err.Error(), "scorecard")
		return
	}
	v.evidence.Scorecard = &s
	if !v.scorecardFits(s) {
		return
	}
	if v.in.Binding == nil {
		if v.auth.requires(RequireScorecard) {
			v.hold(CheckScorecard, CodeBindingMissing, "the scorecard has no signed binding, and one is required", "scorecard")
			return
		}
		v.pass(CheckScorecard, CodeScorecardMatches, fmt.Sprintf("%s scorecard %.100q is of this image and policy; not bound by a signature", s.Kind, s.ID), "scorecard")
		return
	}
	v.binding(s)
}

// scorecardFits compares image, policy and time.
func (v *verification) scorecardFits(s predicate.Scorecard) bool {
	produced, err := parseAny(s.Produced)
	collected, err2 := manifest.ParseTime(v.boundary.Collected)
	expires, err3 := manifest.ParseTime(v.report.Times.Expires)
	switch {
	case s.Image != v.report.Subject:
		v.hold(CheckScorecard, CodeScorecardImage, "produced under image "+s.Image+", attested is "+v.report.Subject, "scorecard")
	case s.Policy != v.boundary.Policy.Digest:
		v.hold(CheckScorecard, CodeScorecardPolicy, "produced under policy "+s.Policy+", attested is "+v.boundary.Policy.Digest, "scorecard")
	case err != nil || err2 != nil || err3 != nil || produced.Before(collected) || !produced.Before(expires) || produced.After(v.in.At.Add(ClockSkew)):
		v.hold(CheckScorecard, CodeScorecardTime, fmt.Sprintf("produced on %.40s, outside the attested period from %s to %s", s.Produced, v.boundary.Collected, v.report.Times.Expires), "scorecard")
	default:
		return true
	}
	return false
}

// binding checks the signed binding.
func (v *verification) binding(s predicate.Scorecard) {
	var l lines
	a := *v.auth
	a.require = nil
	auth := a.authenticate(v.in.Binding, "binding", &l)
	if auth == nil {
		c, _ := l.failed()
		v.fail(CheckScorecard, CodeBindingInvalid, string(c.Code)+": "+c.Message, "binding")
		return
	}
	var b predicate.Binding
	st, _, err := predicate.ParseStatement(auth.payload)
	if err == nil {
		err = auth.whole()
	}
	if err == nil && st.PredicateType != predicate.TypeBinding {
		err = fmt.Errorf("its predicate type is %.200q, want %q", st.PredicateType, predicate.TypeBinding)
	}
	if err == nil {
		_, err = st.Decode(&b)
	}
	var at time.Time
	if err == nil {
		at, err = manifest.ParseTime(b.Bound)
	}
	if err != nil {
		v.fail(CheckScorecard, CodeBindingInvalid, err.Error(), "binding")
		return
	}
	want := BindingOf(v.report, v.boundary, s, b.Bound)
	if b != want || st.Subject[0].Sha256() != predicate.Digest(v.in.Scorecard) {
		v.fail(CheckScorecard, CodeBindingOther, "the binding is of another scorecard, attestation, image or policy", "binding")
		return
	}
	// The scorecard's own time was found well formed.
	produced, _ := parseAny(s.Produced)
	late := v.in.At.Add(ClockSkew)
	if at.Add(ClockSkew).Before(produced) || at.After(late) || auth.signed.After(late) || (!auth.signed.IsZero() && auth.signed.Add(ClockSkew).Before(at)) {
		v.hold(CheckScorecard, CodeBindingTime, fmt.Sprintf("bound on %s: before the scorecard was produced (%.40s), after it was signed, or in the future", b.Bound, s.Produced), "binding")
		return
	}
	v.pass(CheckScorecard, CodeScorecardOK, fmt.Sprintf("%s scorecard %.100q, bound on %s", s.Kind, s.ID, b.Bound), "binding")
}

// BindingOf is the binding of a scorecard to what a report verified.
func BindingOf(r Report, b predicate.Boundary, s predicate.Scorecard, bound string) predicate.Binding {
	return predicate.Binding{
		Attestation: r.Attestation, RunID: b.RunID, Image: r.Subject, Policy: b.Policy.Digest,
		Kind: s.Kind, ScorecardID: s.ID, Produced: s.Produced, Bound: bound,
	}
}
