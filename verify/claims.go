package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
)

// claims compares what the statement says with what the packet gives.
func (v *verification) claims() {
	if v.in.Packet == nil {
		v.signing() // the one thing that needs no packet
		return
	}
	d := v.derived
	if d == nil || d.Redaction == nil || len(d.Judged) != len(d.Manifest.Techniques) || d.Policy.Digest == "" {
		v.skip(CheckClaims, CodeNotAuthenticated, "the packet does not give what the statement could be compared with", "")
		return
	}
	want := d.Boundary()
	// These only the signer knows.
	want.Attested, want.Expires, want.Signing = v.boundary.Attested, v.boundary.Expires, v.boundary.Signing
	differ, err := differences(want, v.boundary)
	switch {
	case err != nil:
		v.fail(CheckClaims, CodeClaimsDiffer, err.Error(), "")
	case len(differ) > 0:
		for _, name := range differ {
			v.fail(CheckClaims, CodeClaimsDiffer, "the statement's "+name+" does not follow from the packet", "predicate."+name)
		}
	case v.evidence.Statement.Subject[0].Name != d.Subject().Name || v.evidence.Statement.Subject[0].URI != "":
		v.fail(CheckClaims, CodeClaimsDiffer, "the subject's name is not the reference that was run", "subject")
	case !v.signing():
	default:
		v.pass(CheckClaims, CodeClaimsOK, "everything that the statement says of the packet follows from it", "")
	}
}

// signing compares what the statement says of its key with the key that
// verified it. The URI of a key service cannot be compared; the fingerprint
// behind it can.
func (v *verification) signing() bool {
	s, signer := v.boundary.Signing, v.report.Signer
	if s.Algorithm != signer.Algorithm {
		v.fail(CheckClaims, CodeClaimsDiffer, fmt.Sprintf("signing.algorithm is %.60q, the signature is %s", s.Algorithm, signer.Algorithm), "predicate.signing")
		return false
	}
	named := s.Key
	if _, fragment, ok := strings.Cut(s.Key, "#"); ok && strings.Contains(s.Key, "://") {
		named = fragment
	}
	if signer.Kind == "key" && named != signer.Fingerprint {
		v.fail(CheckClaims, CodeClaimsDiffer, fmt.Sprintf("signing.key is %.100q, the key is %s", s.Key, signer.Fingerprint), "predicate.signing")
		return false
	}
	return true
}

// differences returns the members in which two predicates differ.
func differences(want, have predicate.Boundary) ([]string, error) {
	if reflect.DeepEqual(want, have) {
		return nil, nil
	}
	wanted, err1 := canon.Marshal(want)
	got, err2 := canon.Marshal(have)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("compare predicates: %w", err)
	}
	if bytes.Equal(wanted, got) {
		return nil, nil
	}
	a, err := members(wanted)
	if err != nil {
		return nil, err
	}
	b, err := members(got)
	if err != nil {
		return nil, err
	}
	var out []string
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if !bytes.Equal(a[name], b[name]) {
			out = append(out, name)
		}
	}
	return out, nil
}

func members(data []byte) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("compare predicates: %w", err)
	}
	return out, nil
}

// standing judges what is claimed: enforcement, admission, escapes. It works on
// the signed statement, which by now was compared with the packet where there is
// one.
func (v *verification) standing() {
	v.enforcement()
	v.admission()
	v.battery()
}

func (v *verification) enforcement() {
	e := v.boundary.Enforcement
	if v.reported(CheckEnforcement) { // it contradicts the policy
		return
	}
	switch e.State {
	case manifest.EnforcementEnforced:
		v.pass(CheckEnforcement, CodeEnforced, "the policy was in force", "predicate.enforcement")
	case manifest.EnforcementNothing:
		v.hold(CheckEnforcement, CodeEnforcedNothing, "the policy had nothing to enforce: "+e.Reason, "predicate.enforcement")
	case manifest.EnforcementFailed:
		v.hold(CheckEnforcement, CodeEnforcedFailed, "the policy was not in force: "+e.Reason, "predicate.enforcement")
	default:
		v.fail(CheckEnforcement, CodeEnforcementState, fmt.Sprintf("unknown state %.60q", e.State), "predicate.enforcement")
	}
}

func (v *verification) admission() {
	a := v.boundary.Admission
	switch {
	case a.State == manifest.AdmissionAdmitted && predicate.CheckDigest(a.PolicyDigest) == nil:
		v.pass(CheckAdmission, CodeAdmissionOK, "admitted under "+a.PolicyDigest, "predicate.admission")
	case a.State == manifest.AdmissionNotConfigured && a.PolicyDigest == "":
		if v.auth.requires(RequireAdmission) {
			v.hold(CheckAdmission, CodeAdmissionMissing, "no admission policy was configured, and one is required", "predicate.admission")
			return
		}
		v.skip(CheckAdmission, CodeAdmissionNone, "no admission policy was configured", "predicate.admission")
	default:
		v.fail(CheckAdmission, CodeAdmissionState, fmt.Sprintf("unknown state %.60q, or a policy that does not fit it", a.State), "predicate.admission")
	}
}

// criticalEscapes says how many there are.
func criticalEscapes(n int64) string {
	if n == 1 {
		return "1 critical escape"
	}
	return fmt.Sprintf("%d critical escapes", n)
}

// battery holds the claim on escapes and on vectors that are not conclusive.
func (v *verification) battery() {
	b := v.boundary.Battery
	if !v.vectorsKnown() {
		return
	}
	if b.CriticalEscapes > 0 {
		v.hold(CheckBattery, CodeCriticalEscape, criticalEscapes(b.CriticalEscapes), packet.ManifestFile)
	}
	for _, x := range b.Vectors {
		evidence := "predicate.battery.vectors." + x.Vector
		switch judge.Outcome(x.Outcome) {
		case judge.Blocked, judge.Contained:
		case judge.Escaped:
			v.hold(CheckBattery, CodeEscape, fmt.Sprintf("%s escaped, severity %s", x.Vector, x.EscapedSeverity), evidence)
		case judge.Inconclusive:
			v.hold(CheckBattery, CodeVectorOpen, x.Vector+" is inconclusive: "+v.reasons(x.Vector), evidence)
		default:
			v.hold(CheckBattery, CodeVectorNotTested, x.Vector+" was not tested", evidence)
		}
	}
	if v.reported(CheckBattery) {
		return
	}
	message := fmt.Sprintf("%d vectors, no escape, all conclusive", len(b.Vectors))
	if v.in.Packet == nil {
		v.skip(CheckBattery, CodeBatteryNotChecked, message+", as attested", "predicate.battery")
		return
	}
	v.pass(CheckBattery, CodeBatteryOK, message, "predicate.battery")
}

// reported tells whether a check has a line already.
func (v *verification) reported(check string) bool {
	return slices.ContainsFunc(v.list, func(c Check) bool { return c.Name == check })
}

// vectorsKnown refuses a statement that leaves a vector out.
func (v *verification) vectorsKnown() bool {
	want := v.shared.vectors()
	var have []string
	for _, x := range v.boundary.Battery.Vectors {
		have = append(have, x.Vector)
	}
	if !slices.Equal(want, have) {
		v.fail(CheckBattery, CodeClaimsDiffer, fmt.Sprintf("the statement has vectors %.200v, the catalogue %v", have, want), "predicate.battery.vectors")
		return false
	}
	return true
}

func vectors(list []catalog.Technique) []string {
	var out []string
	for _, t := range list {
		if !slices.Contains(out, string(t.Vector)) {
			out = append(out, string(t.Vector))
		}
	}
	return out
}

// reasons says what kept a vector open, where the packet is there to tell.
func (v *verification) reasons(vector string) string {
	if v.derived == nil {
		return "see the packet"
	}
	for _, s := range v.derived.Vectors {
		if string(s.Vector) == vector {
			const most = 5
			if n := len(s.Reasons); n > most {
				return strings.Join(s.Reasons[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
			}
			return strings.Join(s.Reasons, "; ")
		}
	}
	return "see the packet"
}
