// Package review helps people with policies: it finds entries that do nothing
// or too much (Lint), tells what a change opens and closes (Diff), and turns
// logs into entries for review (Suggest). It decides nothing by itself: every
// answer comes from package policy's evaluator.
package review

import "github.com/wallproof/wallproof/policy"

// Finding is something worth a look.
type Finding struct {
	Code    string `json:"code"`  // "dead", "shadowed", "over-broad", "matches-nothing", …
	Entry   string `json:"entry"` // by name, as written in normal form
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"` // one sentence that says what to do
}

// Lint returns findings in the order of the document.
func Lint(p *policy.Policy) ([]Finding, error) { return nil, nil }

// Change is one difference in what is reachable, injected, brokered, or let in.
type Change struct {
	Kind    string `json:"kind"`             // "reachable", "unreachable", "injected", "not-injected", "changed"
	Subject string `json:"subject"`          // "github.com", "*.example.org", "hosts that no entry names", …
	Phase   string `json:"phase"`            // "agent", …
	Detail  string `json:"detail"`           // "ports 443, methods GET HEAD"
	Before  string `json:"before,omitempty"` // reason or entry
	After   string `json:"after,omitempty"`
}

// Diff tells what becomes reachable and unreachable from before to after.
func Diff(before, after *policy.Policy) ([]Change, error) { return nil, nil }
