package verify

import (
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
)

// Peek reads what a bundle says of itself without believing it: the predicate
// type of its statement and the digest of the attestation that it is about (of a
// verifier's re-run) or that it is. It is for telling bundles apart before they
// are verified; both are "" for anything else.
func Peek(bundle []byte) (predicateType, attestation string) {
	e, _, err := readBundle(bundle)
	if err != nil {
		return "", ""
	}
	s, _, err := predicate.ParseStatement(e.payload)
	if err != nil {
		return "", ""
	}
	if s.PredicateType != predicate.TypeVSA {
		return s.PredicateType, payloadDigest(e.payload)
	}
	var v predicate.VSA
	if _, err := s.Decode(&v); err != nil || len(v.InputAttestations) != 1 {
		return s.PredicateType, ""
	}
	return s.PredicateType, "sha256:" + v.InputAttestations[0].Digest["sha256"]
}

// Pair is an attestation with the re-runs that name it, which may be none or
// several: whoever may write to a registry may put any there.
type Pair struct {
	Attestation   []byte
	Verifications [][]byte
}

// Pairs sorts bundles of one image, as they come from a registry: each
// trust-boundary attestation with the re-runs that name it. Nothing is believed;
// Verify does that.
func Pairs(bundles [][]byte) []Pair {
	var out []Pair
	reruns := map[string][][]byte{}
	for _, b := range bundles {
		if typ, about := Peek(b); typ == predicate.TypeVSA && about != "" {
			reruns[about] = append(reruns[about], b)
		}
	}
	for _, b := range bundles {
		if typ, digest := Peek(b); typ == predicate.TypeBoundary {
			out = append(out, Pair{b, reruns[digest]})
		}
	}
	return out
}

// Verify verifies the attestation with each of its re-runs and returns the best
// report, so that a bad re-run beside a good one hides nothing. Only a verifier that
// may say so takes back what was said before: a re-run of its own that failed, and is
// not older than the one that passed. in's own bundles are not looked at. Once it is
// not the re-run that a report fails for, the others are not tried.
func (p Pair) Verify(s *Verifier, in Input) Report {
	in.Bundle, in.Verification = p.Attestation, nil
	if len(p.Verifications) == 0 {
		return s.Verify(in)
	}
	var best, failed Report
	for i, rerun := range p.Verifications {
		in.Verification = rerun
		r := s.Verify(in)
		if r.Has(CodeRerunFailed) && (failed.Verdict == "" || verifiedAfter(r, failed)) {
			failed = r
		}
		if i == 0 || supersedes(r, best) {
			best = r
		}
		if failsElsewhere(r) {
			break
		}
	}
	if failed.Verdict != "" && !verifiedAfter(best, failed) {
		return failed
	}
	return best
}

// supersedes tells whether of two reports about one attestation the first counts: the
// better one, and of two that are as good the one whose re-run is newer.
func supersedes(a, b Report) bool {
	if ra, rb := rank(a.Verdict), rank(b.Verdict); ra != rb {
		return ra > rb
	}
	if fa, fb := len(a.Failed()), len(b.Failed()); fa != fb {
		return fa < fb
	}
	return verifiedAfter(a, b)
}

// verifiedAfter tells whether the re-run of a is newer than that of b.
func verifiedAfter(a, b Report) bool {
	ta, errA := manifest.ParseTime(a.Times.Verified)
	tb, errB := manifest.ParseTime(b.Times.Verified)
	return errA == nil && (errB != nil || ta.After(tb))
}

// failsElsewhere tells whether a report is invalid whatever its re-run says.
func failsElsewhere(r Report) bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status == Fail && c.Name != CheckRerun })
}
