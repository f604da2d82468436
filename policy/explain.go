package policy

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/policy/host"
)

// Explanation is a Decision with what led to it, for people and tools.
type Explanation struct {
	Decision
	URL     string   // normalised, or as given when it is none
	Method  string   //
	Summary string   // one sentence
	Notes   []string // what else will be checked or done
	Secrets []string // names of the secrets that would be injected
}

// MarshalJSON gives the members of Decision and "url", "method", "summary",
// "notes", "secrets".
func (x Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Decision  string   `json:"decision"`
		Reason    Reason   `json:"reason"`
		Entry     string   `json:"entry,omitempty"`
		Line      int      `json:"line,omitempty"`
		Intercept bool     `json:"intercept"`
		URL       string   `json:"url"`
		Method    string   `json:"method"`
		Summary   string   `json:"summary"`
		Notes     []string `json:"notes,omitempty"`
		Secrets   []string `json:"secrets,omitempty"`
	}{x.Verdict.String(), x.Reason, x.Entry, x.Line, x.Intercept, x.URL, x.Method, x.Summary, x.Notes, x.Secrets})
}

// Explain decides on a GET of a URL as it is written, as the proxy would before
// any lookup. A text that is no URL is denied with the reason.
func (e *Evaluator) Explain(rawURL string) Explanation { return e.ExplainRequest("GET", rawURL) }

// ExplainRequest is Explain for any method.
func (e *Evaluator) ExplainRequest(method, rawURL string) Explanation {
	x := Explanation{URL: rawURL, Method: method}
	u, err := host.ParseURL(rawURL)
	if err != nil {
		x.Reason = urlReason(err)
		x.Summary = "Denied: " + err.Error() + "."
		return x
	}
	x.URL = u.String()
	r := Request{Scheme: u.Scheme, Host: u.Host, Port: u.Port, Method: method, Path: u.Path}
	x.Decision = e.Request(r)
	x.Summary = x.Decision.summary(e.mode)
	if !x.Allowed() {
		return x
	}
	e.note(&x, r, u)
	return x
}

// urlReason tells a URL that names no host from one that is no URL.
func urlReason(err error) Reason {
	var he *host.Error
	if !errors.As(err, &he) {
		return ReasonBadURL
	}
	switch he.Code {
	case host.CodeScheme:
		return ReasonBadScheme
	case host.CodeEmpty, host.CodeLabel, host.CodeIDNA, host.CodeAddress, host.CodeZone, host.CodeWildcard:
		return ReasonBadHost
	}
	return ReasonBadURL
}

func (e *Evaluator) note(x *Explanation, r Request, u host.URL) {
	if !r.Host.IsAddr() && x.Reason != ReasonModel && x.Reason != ReasonService {
		x.Notes = append(x.Notes, "The address that the name resolves to is checked too, and must not be in a private or special range that no entry opens.")
	}
	if rule := e.Injection(r); rule != nil {
		for _, s := range rule.Set {
			x.Secrets = append(x.Secrets, s.Secret)
			x.Notes = append(x.Notes, fmt.Sprintf("The secret %s is injected (%s, line %d).", s.Secret, s.As, rule.Pos.Line))
		}
	}
	if l, ok := e.Repository(r, u.Query); ok && l.Repository != nil {
		x.Notes = append(x.Notes, fmt.Sprintf("The repository %s is brokered: a lease of %s is injected.", l.Name, l.Broker.Lease))
	} else if ok && l.Service == GitPush {
		x.Notes = append(x.Notes, fmt.Sprintf("A push to %s is refused: no broker serves it.", l.Name))
	}
	if x.Pin != nil && x.Pin.Covers(r.Path) {
		x.Notes = append(x.Notes, fmt.Sprintf("The response must be one of %d pinned artefacts.", len(x.Pin.Digests)))
	}
	switch {
	case x.Intercept && r.Scheme == "https":
		x.Notes = append(x.Notes, "TLS is terminated by the proxy, because a rule needs sight of the request.")
	case r.Scheme == "https":
		x.Notes = append(x.Notes, "TLS is passed on untouched.")
	}
}

// summary says a decision in one sentence.
func (d Decision) summary(mode Mode) string {
	where := d.Entry
	switch {
	case d.Line > 0:
		where = fmt.Sprintf("%s (line %d)", d.Entry, d.Line)
	case d.Entry != "":
		where += " (of a pack)"
	}
	switch d.Reason {
	case ReasonAllowEntry:
		return "Allowed by the entry " + where + "."
	case ReasonDefaultAllow:
		return fmt.Sprintf("Allowed: no entry matches, and mode %s allows what it does not name.", mode)
	case ReasonModel:
		return "Allowed: the model endpoint."
	case ReasonService:
		return "Allowed: a service of the run."
	case ReasonBlockEntry:
		return "Denied by the block entry " + where + "."
	case ReasonDefaultDeny:
		return fmt.Sprintf("Denied: no entry matches, and mode %s denies what it does not name.", mode)
	case ReasonPort:
		return "Denied: the entry " + where + " is for other ports."
	case ReasonMethod:
		return "Denied: the entry " + where + " is for other methods."
	case ReasonPath:
		return "Denied: the entry " + where + " is for other paths."
	case ReasonLocalhost:
		return "Denied: names of the machine itself are denied unless named exactly."
	case ReasonMetadataName:
		return "Denied: the names of cloud metadata services are denied unless named exactly."
	case ReasonAmbiguousPath:
		return "Denied: two servers could read the path differently."
	case ReasonPublic, ReasonOpened:
		return "Allowed: the address may be reached."
	case Reason(host.ClassMetadata):
		return "Denied: the address of a cloud metadata service; only a cidr entry for exactly this address opens it."
	}
	return fmt.Sprintf("Denied: the address is %s, and no cidr entry opens it.", d.Reason)
}
