package verify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy"
)

var errOutsideRun = errors.New("outside the time of the run")

func observationCode(err error) Code {
	switch {
	case errors.Is(err, errOutsideRun):
		return CodeObservationsTime
	case packet.ReasonOf(err) == packet.ReasonMissing:
		return Code(packet.ReasonMissing)
	}
	return CodeObservationsMalformed
}

// documents reads the single documents of the packet. Only what is malformed is
// reported here; what they mean is judged with the claims.
func (i *inspection) documents() {
	i.redaction()
	i.threatModel()
	i.redTeam()
}

func (i *inspection) policy() {
	if !i.trusted(packet.PolicyFile) {
		return
	}
	data, err := packet.ReadDocument(i.packet, packet.PolicyFile)
	if err == nil {
		i.rules = i.policies.of(data)
		i.derived.Policy, err = i.rules.policy, i.rules.formErr
	}
	if err != nil {
		i.fail(CheckClaims, CodePolicyForm, err.Error(), packet.PolicyFile)
		return
	}
	if recorded := i.derived.Manifest.Run.PolicyDigest; recorded != i.derived.Policy.Digest {
		i.fail(CheckClaims, CodeClaimsDiffer, fmt.Sprintf("the run was under policy %.80s, the packet holds %s", recorded, i.derived.Policy.Digest), packet.PolicyFile)
	}
	i.enforceable()
}

// enforceable compares the policy, read as the enforcement does, with what the run
// says of whether it has anything to enforce.
func (i *inspection) enforceable() {
	r := i.rules
	switch {
	case r.evaluator != 0:
		i.hold(CheckClaims, CodePolicyEvaluator, fmt.Sprintf("the policy is written for evaluator version %d; this verifier has %d, and cannot tell what it means", r.evaluator, policy.EvaluatorVersion), packet.PolicyFile)
		return
	case r.ruleErr != nil:
		i.fail(CheckClaims, CodePolicyForm, r.ruleErr.Error(), packet.PolicyFile)
		return
	}
	i.parts = r.parts
	state := i.derived.Manifest.Run.Enforcement.State
	if (r.nothing && state == manifest.EnforcementEnforced) || (!r.nothing && state == manifest.EnforcementNothing) {
		i.fail(CheckEnforcement, CodeEnforcementOther, fmt.Sprintf("the run says %q, but whether the policy has nothing to enforce is %t", state, r.nothing), packet.PolicyFile)
	}
}

// evaluatorOf is the version of the evaluator that a policy was written for, or 0.
func evaluatorOf(canonical []byte) int64 {
	var p struct {
		Evaluator int64 `json:"evaluator"`
	}
	if _, err := canon.UnmarshalOpen(canonical, canon.Limits{Bytes: packet.MaxDocumentBytes}, &p); err != nil {
		return 0
	}
	return p.Evaluator
}

// redaction reads the proof and what it covers.
func (i *inspection) redaction() {
	if !i.trusted(packet.RedactionFile) {
		i.skip(CheckRedaction, CodeNotAuthenticated, "the redaction proof is not the signed one", packet.RedactionFile)
		return
	}
	r, data, err := packet.ReadRedaction(i.packet)
	if err != nil {
		i.fail(CheckRedaction, CodeRedactionForm, err.Error(), packet.RedactionFile)
		return
	}
	if i.derived.Files != nil {
		if err := r.Covers(i.derived.Files); err != nil {
			i.fail(CheckRedaction, CodeRedactionCoverage, err.Error(), packet.RedactionFile)
			return
		}
	}
	i.derived.Redaction, i.derived.redactionDigest = &r, digestOf(data)
	encodings := slices.Clone(r.Encodings)
	slices.Sort(encodings)
	residue, odd := residueHits(r.Residue)
	odd = odd || oddKinds(r.Kinds)
	switch {
	case odd:
		i.fail(CheckRedaction, CodeRedactionForm, "a place of the machine or a kind is listed twice, or a count is negative", packet.RedactionFile)
	case residue > 0:
		i.hold(CheckRedaction, CodeRedactionHits, fmt.Sprintf("%d secrets of the run were left on the machine that it ran on", residue), packet.RedactionFile)
	case r.Secrets < 0 || r.Hits < 0 || r.Control.Planted < 0 || len(slices.Compact(encodings)) != len(r.Encodings):
		i.fail(CheckRedaction, CodeRedactionForm, "counts are negative, or an encoding is listed twice", packet.RedactionFile)
	case r.Hits > 0:
		i.hold(CheckRedaction, CodeRedactionHits, fmt.Sprintf("%d secrets were found in the packet: do not publish it", r.Hits), packet.RedactionFile)
	case hollow(r) != "":
		i.hold(CheckRedaction, CodeRedactionUnproven, hollow(r)+": the search proves nothing", packet.RedactionFile)
	default:
		i.pass(CheckRedaction, CodeRedactionOK, fmt.Sprintf("%d secrets in %d encodings, %d files, no hit; all %d planted values found",
			r.Secrets, len(r.Encodings), len(r.Scanned), r.Control.Planted), packet.RedactionFile)
	}
}

// residueHits adds up what was found on the machine. odd: a place is listed twice, or
// a count is negative.
func residueHits(places []packet.Residue) (hits int64, odd bool) {
	seen := map[string]bool{}
	for _, p := range places {
		odd = odd || seen[p.Place] || p.Files < 0 || p.Bytes < 0 || p.Unread < 0 || p.Hits < 0
		seen[p.Place] = true
		hits += p.Hits
	}
	return hits, odd
}

// leastEncodings are those in which a search must have looked for every secret.
var leastEncodings = []string{"raw", "base64", "hex", "percent"}

// hollow says why a search without hits proves nothing, or "".
func hollow(r packet.Redaction) string {
	for _, e := range leastEncodings {
		if !slices.Contains(r.Encodings, e) {
			return "it did not look for values in encoding " + e
		}
	}
	least := int64(len(r.Scanned) + len(r.Encodings))
	switch {
	case r.Secrets < 1:
		return "it looked for no secret"
	case r.Control.Planted < least:
		return fmt.Sprintf("%d values were planted, one a file and one an encoding are %d", r.Control.Planted, least)
	case r.Control.Found != r.Control.Planted:
		return fmt.Sprintf("of %d planted values %d were found", r.Control.Planted, r.Control.Found)
	}
	for _, k := range r.Kinds {
		if k.Planted < int64(len(r.Encodings)) || k.Found != k.Planted || k.Left > 0 {
			return fmt.Sprintf("of %d values planted in a %.40s %d were found, and %d were left in what is written", k.Planted, k.Kind, k.Found, k.Left)
		}
	}
	return ""
}

// oddKinds: a kind is listed twice, or a count is negative.
func oddKinds(kinds []packet.RedactionKind) bool {
	seen := map[string]bool{}
	for _, k := range kinds {
		if seen[k.Kind] || k.Planted < 0 || k.Found < 0 || k.Left < 0 {
			return true
		}
		seen[k.Kind] = true
	}
	return false
}

func (i *inspection) threatModel() {
	if !i.trusted(packet.ThreatModelMD) && !i.trusted(packet.ThreatModelJSON) {
		return
	}
	t, err := packet.ReadThreatModel(i.packet)
	if err != nil {
		i.fail(CheckThreatModel, CodeThreatModelMalformed, err.Error(), packet.ThreatModelMD)
		return
	}
	i.derived.ThreatModel = t
}

func (i *inspection) redTeam() {
	if !i.trusted(packet.RedTeamFile) {
		return
	}
	r, err := packet.ReadRedTeam(i.packet)
	if err != nil {
		i.fail(CheckRedTeam, CodeRedTeamMalformed, err.Error(), packet.RedTeamFile)
		return
	}
	i.derived.RedTeam = r
}
