// Package review helps people with policies: it finds entries that do nothing
// or too much (Lint), tells what a change opens and closes (Diff), and turns
// logs into entries for review (Suggest). It decides nothing by itself: what is
// reachable is asked of package policy's evaluator.
package review

import "github.com/wallproof/wallproof/policy"

// Level says how much a finding matters.
type Level string

// The levels.
const (
	Warning Level = "warning" // most likely not what was meant
	Note    Level = "note"    // worth knowing
)

// Code names a kind of finding. Codes are stable.
type Code string

// The codes.
const (
	CodeDead          Code = "dead"               // another entry of equal specificity always wins
	CodeNoEffect      Code = "no-effect"          // the mode decides the same without it
	CodeShadowed      Code = "shadowed"           // a wider entry already says the same
	CodeOverBroad     Code = "over-broad"         // covers hosts that anybody can have, or a large part of the address space
	CodeNothing       Code = "matches-nothing"    // no host can match
	CodeUnknownDomain Code = "unknown-domain"     // the top-level domain does not exist
	CodeApex          Code = "apex-not-covered"   // "*.x" does not cover x itself
	CodeRangeRequests Code = "range-and-requests" // methods or paths of a range say nothing of names
	CodeOpens         Code = "opens-range"        // opens a special range
	CodeOpensMetadata Code = "opens-metadata"     // opens a metadata service
	CodeUnreached     Code = "unreached-rule"     // no allowed request gets the secret
	CodeUnused        Code = "unused-secret"      // the secret goes nowhere
	CodeCleartext     Code = "cleartext"          // a secret may travel in clear
	CodeWidePush      Code = "wide-push"          // a broker lets every branch or ref be pushed
	CodeKeyVariable   Code = "key-like-variable"  // a variable that enters looks like a credential
	CodeModelOnly     Code = "model-only"         // the allowlist is empty but for the model
	CodeFailsOpen     Code = "fails-open"         // on-failure: warn supports no claim
	CodeSearch        Code = "search-override"    // a model may search by itself
)

// Finding is something worth a look.
type Finding struct {
	Level   Level        `json:"level"`
	Code    Code         `json:"code"`
	Phase   policy.Phase `json:"phase,omitempty"` // of an entry; "" for other things
	Entry   string       `json:"entry"`           // by name, in normal form
	Line    int          `json:"line,omitempty"`
	Message string       `json:"message"` // one sentence, lower case, that says what to do
}

var phases = []policy.Phase{policy.PhaseAgent, policy.PhaseSetup, policy.PhaseVerifier}
