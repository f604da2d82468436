package verify

import (
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

// Pair is an attestation with the re-run that belongs to it, or nil.
type Pair struct{ Attestation, Verification []byte }

// Pairs sorts bundles of one image, as they come from a registry: each
// trust-boundary attestation with a re-run that names it. Of several re-runs the
// last one in the list is taken. Nothing is believed; Verify does that.
func Pairs(bundles [][]byte) []Pair {
	var out []Pair
	rerun := map[string][]byte{}
	for _, b := range bundles {
		if typ, about := Peek(b); typ == predicate.TypeVSA && about != "" {
			rerun[about] = b
		}
	}
	for _, b := range bundles {
		if typ, digest := Peek(b); typ == predicate.TypeBoundary {
			out = append(out, Pair{b, rerun[digest]})
		}
	}
	return out
}
