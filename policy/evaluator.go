package policy

import (
	"errors"
	"net/netip"

	"github.com/wallproof/wallproof/policy/host"
)

// Evaluator answers for one phase of a policy. It is immutable and safe for
// concurrent use; Name, Address, Request and Injection do not allocate.
type Evaluator struct {
	policy *Policy
}

// Request is what a proxy knows once it has read a request's head.
type Request struct {
	Scheme  string // "http" or "https"
	Host    host.Host
	Port    uint16
	Method  string
	Path    string // raw, as sent
	Upgrade bool   // asks for WebSocket; allowed by entries that list no methods, or list UPGRADE
}

// Compile builds the evaluator of the agent phase, and those of set-up and
// verifier with it (see Phase). A policy that contradicts itself is refused; the
// error is an *Error.
func Compile(p *Policy) (*Evaluator, error) { return nil, errors.New("policy: not built yet") }

// Phase returns the evaluator of another phase of the same policy.
func (e *Evaluator) Phase(p Phase) *Evaluator { return e }

// Digest returns the policy's hash, "sha256:<hex>".
func (e *Evaluator) Digest() string { return "" }

// Name is the first gate, before any lookup: may h be reached at port at all?
// Port 0 stands for any port, for name queries. For an address it includes the
// second gate.
func (e *Evaluator) Name(h host.Host, port uint16) Decision { return Decision{} }

// Address is the second gate: may a, which a lookup of h gave, be dialled? The
// caller dials exactly a. For the model's and a service's name the caller knows
// the address itself and does not ask.
func (e *Evaluator) Address(h host.Host, port uint16, a netip.Addr) Decision { return Decision{} }

// Request decides on a request. It includes Name, not Address.
func (e *Evaluator) Request(r Request) Decision { return Decision{} }

// Injection returns the rule that applies to an allowed request, or nil.
func (e *Evaluator) Injection(r Request) *Rule { return nil }

// Lease says which brokered repository a request is about.
type Lease struct {
	Broker     *Broker
	Repository *Repository // nil: none of the broker's; a push to it has to be refused
	Name       string      // "owner/name" as asked for, lower case
	Service    string      // "git-upload-pack" (fetch) or "git-receive-pack" (push)
}

// Repository returns the repository that a git smart HTTP request to a broker's
// host is about. query is the raw query ("service=git-receive-pack" of the first
// request). ok is false for every other request.
func (e *Evaluator) Repository(r Request, query string) (l Lease, ok bool) { return Lease{}, false }

// AllowsPush reports whether a full ref name may be pushed.
func (l Lease) AllowsPush(ref string) bool { return false }

// Policy returns what the evaluator was compiled from, without the entries.
func (e *Evaluator) Policy() *Policy { return e.policy }

// Routing is how a sandbox's connections reach the proxy.
type Routing string

// The routings.
const (
	RoutingSelective Routing = "selective" // only the hosts that the policy names
	RoutingCatchAll  Routing = "catch-all" // every connection; the proxy is the only way out
)

// Routing derives the routing from the policy.
func (e *Evaluator) Routing() RoutingPlan { return RoutingPlan{} }

// RoutingPlan says how to route and why.
type RoutingPlan struct {
	Routing Routing
	Why     string   // what makes it catch-all, or "" for selective
	Line    int      // of the entry that does
	Hosts   []string // selective: the exact names to redirect, sorted
}

// NothingToEnforce reports whether the policy restricts, injects, brokers and
// serves nothing beyond what every policy denies.
func (e *Evaluator) NothingToEnforce() bool { return false }

// Explain decides on a GET of a URL as it is written, as the proxy would before
// any lookup. A text that is no URL is denied with the reason.
func (e *Evaluator) Explain(rawURL string) Explanation { return Explanation{} }

// Explanation is a Decision with what led to it, for people and tools.
type Explanation struct {
	Decision
	URL     string // normalised, or as given when it is none
	Method  string
	Summary string   // one sentence
	Notes   []string // what else will be checked or done
	Secrets []string // names of the secrets that would be injected
}
