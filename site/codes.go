package site

import (
	"slices"

	"github.com/wallproof/wallproof/verify"
)

// Reasons of the site's own.
const (
	// codeContradicted: an attestation over the same image that is newer, or as
	// new, found what this one did not.
	codeContradicted = "contradicted-by-newer-run"
	// codePolicyUnread: the attested policy is one that this version's evaluator
	// does not read, so its edges cannot be drawn.
	codePolicyUnread = "policy-not-understood"
)

// explanation says a reason code in words for a page.
type explanation struct {
	title, text, remedy string
	stale               bool // it was true once, and is out of date; else it is held for what was found
}

// again is what ends most reasons.
const again = "A new run of the battery over what is deployed, signed and verified again."

// explanations of the codes that hold a claim. Codes of evidence that does not
// verify share one text, because nothing that such evidence says may be shown.
var explanations = map[string]explanation{
	string(verify.CodeExpired):          {"Expired", "The attestation was valid for a fixed time, and that time is over.", again, true},
	string(verify.CodeExpiredCap):       {"Too old", "The run lies further back than the verifier accepts, whatever the attestation itself says.", again, true},
	string(verify.CodeNotYet):           {"Not yet valid", "The attestation says that it was made later than now. One of the clocks is wrong.", "The moment that it names, or the right time.", true},
	string(verify.CodeImageDrift):       {"Image drift", "The image that is deployed is not the one that was attested.", "An attestation over the image that is deployed.", true},
	string(verify.CodePolicyDrift):      {"Policy drift", "The egress policy that is in force is not the one that was attested.", "A new run under the policy that is in force.", true},
	string(verify.CodeFabricDrift):      {"Fabric drift", "Sandbox driver, runtime version, kernel or isolation configuration are not those that were attested.", "A new run of battery and red team on the fabric that is in use.", true},
	string(verify.CodeLatched):          {"Drift seen before", "A drift was seen earlier. Undoing it does not revive the attestation.", again, true},
	string(verify.CodeRerunMissing):     {"No verifier re-run", "The verifier was not run again after signing, or its result was not signed: the claim is stale, not signed.", "A signed re-run of the verifier.", true},
	string(verify.CodeRerunFailed):      {"Verifier re-run failed", "The verifier was run again and did not confirm the attestation.", "A signed re-run that passes.", false},
	string(verify.CodeRerunStale):       {"Verifier re-run out of date", "The re-run is older than what it should confirm.", "A new signed re-run of the verifier.", true},
	string(verify.CodeRerunOther):       {"Re-run of something else", "The verifier's re-run is about another attestation.", "A signed re-run over this attestation.", false},
	string(verify.CodeRerunIndependent): {"Re-run not independent", "The re-run was signed by the attester itself, and an independent one is required here.", "A re-run that somebody else signs.", false},
	string(verify.CodeCriticalEscape):   {"Critical escape", "At least one attack of critical severity succeeded with the wall up.", "A boundary that withstands it, and a new run that shows so.", false},
	string(verify.CodeEscapeUnclaimed):  {"Canary outside", "A secret's stand-in got out, in the name of no attempt.", "A boundary that withstands it, and a new run that shows so.", false},
	string(verify.CodeEscape):           {"Escape", "At least one attack succeeded with the wall up.", "A boundary that withstands it, and a new run that shows so.", false},
	string(verify.CodeVectorOpen):       {"Vector inconclusive", "For at least one attack vector the battery could not tell whether the wall holds.", "A run in which every vector is conclusive.", false},
	string(verify.CodeVectorNotTested):  {"Vector not tested", "None of a vector's techniques gave a conclusive result.", "A run in which every vector is conclusive.", false},
	string(verify.CodeRedTeamEscapes):   {"Critical escape of the red team", "The external red team reported a critical escape.", "A boundary that withstands it, and a new result.", false},
	string(verify.CodeRedTeamTarget):    {"Red team had another target", "The red team's result is about another image.", "A result over the attested image.", false},
	string(verify.CodeRedTeamKey):       {"Red team's signature not checked", "A red-team result is required here, and nobody checked that the red team signed it.", "The red team's public key.", false},
	string(verify.CodeRedTeamMissing):   {"No red-team result", "A red-team result is required here and none was provided.", "A result over the attested image.", false},
	string(verify.CodeEnforcedNothing):  {"Nothing was enforced", "The policy had nothing to enforce, so no boundary was tested.", "A policy that restricts something, and a new run under it.", false},
	string(verify.CodeEnforcedFailed):   {"Enforcement failed", "The boundary could not be set up, and the run went on without it.", "A run with the boundary in force.", false},
	codePolicyUnread:                    {"Policy not understood", "The attested policy is written for another version of the evaluator, so what it lets through cannot be drawn.", "The version of Wallproof that the policy was written for.", false},
	codeContradicted:                    {"Contradicted by a newer run", "A newer run over the same image, or one that ended at the same time, found a critical escape.", "A newer run that finds none.", false},
}

// unverified explains every code of evidence that does not verify.
var unverified = explanation{"Does not verify", "The evidence is not what it claims to be, or it is damaged. Nothing that it says is shown.", "Evidence that verifies.", false}

func explain(code string) explanation {
	if e, ok := explanations[code]; ok {
		return e
	}
	return explanation{title: "Held", text: "The verifier holds the claim for this reason.", remedy: again}
}

// isLatching tells the drifts that hold an attestation for good.
func isLatching(code string) bool {
	return slices.Contains([]string{string(verify.CodeImageDrift), string(verify.CodePolicyDrift), string(verify.CodeFabricDrift)}, code)
}

// isCritical tells the codes by which a run contradicts older ones.
func isCritical(code string) bool {
	return code == string(verify.CodeCriticalEscape) || code == string(verify.CodeEscapeUnclaimed) || code == string(verify.CodeRedTeamEscapes)
}

// onlyLesserEscapes tells whether nothing but escapes below critical holds the
// claim. Those take away what they contradict and leave the rest.
func onlyLesserEscapes(codes []string) bool {
	return len(codes) > 0 && !slices.ContainsFunc(codes, func(c string) bool { return c != string(verify.CodeEscape) })
}
