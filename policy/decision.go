package policy

import "encoding/json"

// Verdict is the outcome of a decision.
type Verdict uint8

// The verdicts. The zero value denies.
const (
	Deny Verdict = iota
	Allow
)

// String returns "allow" or "deny".
func (v Verdict) String() string {
	if v == Allow {
		return "allow"
	}
	return "deny"
}

// Reason is a stable code that says why.
type Reason string

// Reasons to allow.
const (
	ReasonAllowEntry   Reason = "allow-entry"   // an allow entry matches
	ReasonDefaultAllow Reason = "default-allow" // no entry matches and the mode allows
	ReasonModel        Reason = "model"         // the model's fixed name
	ReasonService      Reason = "service"       // a service of the run
	ReasonPublic       Reason = "public"        // the address is public and not blocked
	ReasonOpened       Reason = "opened"        // the address is in a special range that an entry opens
)

// Reasons to deny.
const (
	ReasonBlockEntry    Reason = "block-entry"    // a block entry matches
	ReasonDefaultDeny   Reason = "default-deny"   // no entry matches and the mode denies
	ReasonPort          Reason = "port"           // the host is allowed, at other ports
	ReasonMethod        Reason = "method"         // the host is allowed, with other methods
	ReasonPath          Reason = "path"           // the host is allowed, under other paths
	ReasonLocalhost     Reason = "localhost-name" // localhost and names below it
	ReasonMetadataName  Reason = "metadata-name"  // a cloud's metadata service by name
	ReasonAmbiguousPath Reason = "ambiguous-path" // two servers could read the path differently
	ReasonBadHost       Reason = "bad-host"       // not a host
	ReasonBadURL        Reason = "bad-url"        // not a URL
	ReasonBadScheme     Reason = "bad-scheme"     // not a scheme that can be policed
)

// The classes of addresses that are denied unless opened are reasons too:
// loopback, link-local, private, … (see host.Class).

// Decision is the answer to one question.
type Decision struct {
	Verdict Verdict
	Reason  Reason
	Entry   string // the entry that decided, normalised: "github.com", "*.example.org/x", "10.0.0.0/8"; "" for none
	Line    int    // where it stands in the document; 0 for none or for an entry of a pack
	// Intercept: a rule needs sight of requests to this host (paths, methods,
	// injection, pins, broker, model), so TLS must be terminated. Without it the
	// connection may be passed on by SNI.
	Intercept bool
	// Pin holds what a downloaded artefact must be, or nil.
	Pin *Pin
}

// Allowed reports whether the verdict is Allow.
func (d Decision) Allowed() bool { return d.Verdict == Allow }

// MarshalJSON gives {"decision","reason","entry","line","intercept"}, without
// empty members.
func (d Decision) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Decision  string `json:"decision"`
		Reason    Reason `json:"reason"`
		Entry     string `json:"entry,omitempty"`
		Line      int    `json:"line,omitempty"`
		Intercept bool   `json:"intercept"`
	}{d.Verdict.String(), d.Reason, d.Entry, d.Line, d.Intercept})
}
