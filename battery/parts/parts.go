// Package parts tells from a policy which of its hosts the battery attacks
// through, and from a policy and the facts that were measured which requirements
// of the catalogue are met. It is pure: the battery plans by it, and the verifier
// plans again and compares, so that nobody's word counts for what did not apply.
//
// A policy's parts are always taken from its canonical form, which is what a
// packet holds.
package parts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
)

// MaxSamples bounds how many allow entries are looked at for a usable target.
const MaxSamples = 256

// MaxHosts bounds how many hosts a secret that is not for them is sent to.
const MaxHosts = 12

// OpenTarget is what is asked for where the policy names no host because it
// allows the whole internet.
const OpenTarget = "www.wallproof-world.example"

// Parts are what hosts and requests of a policy the battery uses.
type Parts struct {
	Allowed     *policy.Sample  // the allowed target, nil if there is none
	Write       bool            // the target takes a request with a body
	Beside      *policy.Sample  // allowed, and no secret is for its host; nil if there is none
	BesideWrite bool            // it takes a request with a body
	Hosts       []policy.Sample // allowed, one a host, at most MaxHosts
	Inspected   bool            // the proxy sees the requests to the target
	Wildcard    string          // a domain below which every name is allowed, "" if none
	Refused     Refused         // close to the target
	Injected    []Injected      // one a host, in the evaluator's order
	Lease       *policy.Lease   // the brokered repository, nil if there is none
	Internet    bool            // addresses that no entry names are reachable
	Private     bool            // an entry opens a private range
	Metadata    bool            // an entry opens a metadata service
	Model       string          // the model's host, "" if there is none
	// ModelRefused: the policy lets nobody ask the model's host but by the model's
	// own route.
	ModelRefused bool
	Platform     Platform // that runs the sandbox
	Names        []string // hosts of all allow entries that were looked at; "*." and a domain stands for all names below it
}

// Injected is a request into which a secret is injected.
type Injected struct {
	Sample  policy.Sample
	Setting policy.Setting
}

// Refused is what the policy refuses close to an allowed request; members are
// empty where it refuses nothing of the kind.
type Refused struct {
	Host, Path, Method, Scheme string
	Port                       uint16
}

// MaxNamed bounds how many names a sandbox's hosts file leads to the proxy.
const MaxNamed = 200

// Named are the names that selective routing leads to the proxy by the sandbox's
// hosts file. It is nil where the policy asks for no selective routing, names
// nothing to route, or names too much for a file.
func Named(e *policy.Evaluator) []string {
	plan := e.Routing()
	if plan.Routing != policy.RoutingSelective || len(plan.Hosts) > MaxNamed {
		return nil
	}
	return plan.Hosts
}

// Of finds the parts in a policy, given with its evaluator.
func Of(e *policy.Evaluator, p *policy.Policy) Parts {
	t := Parts{Internet: opensOutside(e), Private: e.OpensPrivate(), Metadata: e.OpensMetadata(), Platform: platformOf(p)}
	t.target(e)
	t.beside(e, p)
	t.secrets(e)
	if t.Beside = t.withoutSecret(e); t.Beside != nil {
		t.BesideWrite = takesBody(e, t.Beside.Request)
	}
	for _, l := range e.Brokered() {
		// A repository that may be pushed to is best.
		if t.Lease == nil || (len(t.Lease.Repository.Push) == 0 && len(l.Repository.Push) > 0) {
			t.Lease = &l
		}
	}
	if p.Model != nil {
		t.Model = p.Model.Host.String()
		t.ModelRefused = !e.Request(policy.Request{Scheme: "https", Host: p.Model.Host, Port: 443, Method: "GET", Path: "/"}).Allowed()
	}
	return t
}

// target picks the allowed host: one whose requests the proxy sees, that takes a
// GET and asks for no credential is best.
func (t *Parts) target(e *policy.Evaluator) {
	best := -1
	for _, s := range e.Allowed(MaxSamples) {
		name := s.Request.Host.String()
		if !slices.Contains(t.Names, name) {
			t.Names = append(t.Names, name)
			if len(t.Hosts) < MaxHosts {
				t.Hosts = append(t.Hosts, s)
			}
		}
		if domain, ok := strings.CutPrefix(s.Entry, "*."); ok && t.Wildcard == "" {
			t.Wildcard, _, _ = strings.Cut(domain, "/")
			t.Names = append(t.Names, "*."+t.Wildcard)
		}
		if score := worth(e, s); score > best {
			best = score
			t.Allowed = &s
		}
	}
	if t.Allowed != nil || !t.Internet {
		return
	}
	h, err := host.Parse(OpenTarget)
	if err != nil {
		return
	}
	open := policy.Request{Scheme: "https", Host: h, Port: 443, Method: "GET", Path: "/"}
	if e.Request(open).Allowed() {
		t.Names = append(t.Names, OpenTarget)
		t.Allowed = &policy.Sample{Entry: "the open internet", Request: open}
	}
}

// worth says how much can be tried at a sample's host.
func worth(e *policy.Evaluator, s policy.Sample) int {
	score := 0
	if s.Request.Method == "" || s.Request.Method == "GET" {
		score += 4
	}
	if len(s.Secrets) == 0 {
		score += 2
	}
	if e.Name(s.Request.Host, s.Request.Port).Intercept {
		score += 8 // whatever can be tried can be tried there
	}
	if !s.Wild {
		score++
	}
	return score
}

// beside looks for what the policy refuses close to the target.
func (t *Parts) beside(e *policy.Evaluator, p *policy.Policy) {
	if t.Allowed == nil {
		return
	}
	req := t.Allowed.Request
	allows := func(change func(*policy.Request)) bool {
		q := req
		change(&q)
		return e.Request(q).Allowed()
	}
	t.Inspected = e.Name(req.Host, req.Port).Intercept
	t.Write = takesBody(e, req)
	for _, path := range []string{"/private/", "/admin/", "/wallproof-private/"} {
		if !allows(func(q *policy.Request) { q.Path = path }) {
			t.Refused.Path = path
			break
		}
	}
	for _, method := range []string{"DELETE", "PUT", "POST"} {
		if !allows(func(q *policy.Request) { q.Method = method }) {
			t.Refused.Method = method
			break
		}
	}
	for _, port := range []uint16{8443, 22, 8080} {
		if !allows(func(q *policy.Request) { q.Port = port }) {
			t.Refused.Port = port
			break
		}
	}
	if !allows(func(q *policy.Request) { q.Scheme, q.Port = "http", 80 }) {
		t.Refused.Scheme = "http"
	}
	for _, b := range p.Block {
		if b.Match != policy.MatchCIDR && len(b.Ports)+len(b.Methods)+len(b.Paths) == 0 {
			t.Refused.Host = b.Host
			break
		}
	}
}

// secrets picks requests into which a secret is injected, one a host.
func (t *Parts) secrets(e *policy.Evaluator) {
	var seen []string
	for _, s := range e.Injected() {
		name := s.Request.Host.String()
		rule := e.Injection(s.Request)
		if rule == nil || len(rule.Set) == 0 || slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		t.Injected = append(t.Injected, Injected{Sample: s, Setting: rule.Set[0]})
	}
}

// takesBody reports whether the policy allows a POST where it allows a request.
func takesBody(e *policy.Evaluator, r policy.Request) bool {
	r.Method = "POST"
	return e.Request(r).Allowed()
}

// withoutSecret picks an allowed request to a host that no secret is for: the
// target itself where it is one.
func (t *Parts) withoutSecret(e *policy.Evaluator) *policy.Sample {
	candidates := e.Allowed(MaxSamples)
	if t.Allowed != nil {
		candidates = append([]policy.Sample{*t.Allowed}, candidates...)
	}
	for _, s := range candidates {
		secret := func(i Injected) bool { return i.Sample.Request.Host == s.Request.Host }
		if len(s.Secrets) == 0 && !slices.ContainsFunc(t.Injected, secret) {
			return &s
		}
	}
	return nil
}

// outsideSamples is how many addresses of each of the attacker's prefixes are
// asked about.
const outsideSamples = 64

// opensOutside reports whether the policy lets connections go to addresses that
// stand for the internet: then reaching them proves nothing. An entry that names
// a whole top-level domain is no such thing; the attacker's domain is chosen
// outside it.
func opensOutside(e *policy.Evaluator) bool {
	for _, prefix := range []netip.Prefix{nonce.Outside4, nonce.Outside6} {
		for i := range outsideSamples {
			if _, denied := e.Denies(host.FromAddr(nonce.AddrFor(fmt.Sprintf("sample-%d", i), prefix))); !denied {
				return true
			}
		}
	}
	return false
}

// Unmet is a set of requirements that are not met, each with the fact that shows
// it.
type Unmet map[catalog.Requirement]string

// First is the first of a variant's requirements that is not met, with its fact;
// both are "" when it applies.
func (u Unmet) First(t catalog.Technique, variant string) (catalog.Requirement, string) {
	for _, r := range t.RequiresOf(variant) {
		if fact, missing := u[r]; missing {
			return r, fact
		}
	}
	return "", ""
}

// Unmet are the requirements that the policy does not meet.
func (t Parts) Unmet() Unmet {
	out := Unmet{}
	miss := func(missing bool, req catalog.Requirement, fact string) {
		if missing {
			out[req] = fact
		}
	}
	miss(len(t.Injected) == 0, catalog.NeedsInjection, "the policy injects no secret")
	miss(t.Beside == nil, catalog.NeedsSecondHost, "the policy allows no host beside those that a secret is for")
	miss(t.Lease == nil, catalog.NeedsBroker, "the policy brokers no repository")
	miss(t.Internet, catalog.NeedsNoInternet, "the policy allows the open internet")
	miss(t.Private, catalog.NeedsNoPrivate, "the policy opens a private range")
	miss(t.Allowed == nil, catalog.NeedsAllowedHost, "the policy allows no host")
	miss(!t.Write, catalog.NeedsWrite, "the policy allows no request with a body at the allowed host")
	miss(t.Refused.Path == "", catalog.NeedsBlockedPath, "the policy refuses no path at the allowed host")
	miss(t.Refused.Host == "", catalog.NeedsBlockedHost, "the policy names no host as blocked")
	miss(t.Refused.Host == "" && t.Internet, catalog.NeedsRefusedHost, "the policy refuses no host of the internet")
	miss(t.Wildcard == "", catalog.NeedsWildcard, "the policy allows no names below a domain")
	miss(t.Metadata, catalog.NeedsNoMetadata, "the policy opens a metadata service")
	miss(t.Refused.Port == 0, catalog.NeedsBlockedPort, "the policy refuses no port of the allowed host")
	miss(t.Refused.Method == "", catalog.NeedsBlockedMethod, "the policy refuses no method at the allowed host")
	miss(t.Refused.Scheme == "", catalog.NeedsBlockedScheme, "the policy does not refuse plain HTTP to the allowed host")
	miss(!t.Inspected, catalog.NeedsInspection, "no rule of the policy needs sight of requests to the allowed host, so TLS to it is passed on unread")
	miss(t.Model == "", catalog.NeedsModel, "the policy has no model")
	return out
}
