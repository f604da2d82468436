package battery

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
)

// outsideSuffix is the attacker's domain. It lies below a reserved top-level
// name, so no policy for real hosts allows it by accident; if one does, the
// next is tried.
var outsideSuffixes = []string{"collector.wallproof-attacker.example", "collector.wallproof-attacker.test", "collector.wallproof-attacker.invalid"}

// maxSamples bounds how many allow entries are looked at for a usable target.
const maxSamples = 256

// roles are the parts that hosts of the policy under test play: which one is the
// allowed target, where secrets are injected, what is brokered, and where the
// attacker sits.
type roles struct {
	allowed   *policy.Sample
	beside    *policy.Sample // allowed, and no secret is for its host
	write     bool           // the target takes a request with a body; sideWrite: the other does
	sideWrite bool
	injected  []injected // distinct hosts, at most two are used
	lease     *policy.Lease
	suffix    string
	hosts     map[string]string // for the witness: host → role
	blocked   probes.Blocked
	wildcard  string // a domain below which every name is allowed, "" if none
	internet  bool   // addresses that no entry names are reachable
	private   bool   // an entry opens a private range
	metadata  bool   // an entry opens a metadata service
	inspected bool   // the proxy sees the requests to the allowed host
	modelHost string
}

type injected struct {
	sample  policy.Sample
	setting policy.Setting
}

// assign finds the parts in a policy.
func assign(e *policy.Evaluator, p *policy.Policy) (*roles, error) {
	r := &roles{hosts: map[string]string{}, internet: opensOutside(e), private: e.OpensPrivate(), metadata: e.OpensMetadata()}
	r.target(e, p)
	r.secrets(e)
	if r.beside = r.withoutSecret(e); r.beside != nil {
		r.sideWrite = takesBody(e, r.beside.Request)
	}
	r.broker(e)
	r.model(e.Policy())
	if err := r.attacker(e); err != nil {
		return nil, err
	}
	return r, nil
}

// outsideSamples is how many addresses of each of the attacker's prefixes are
// asked about.
const outsideSamples = 64

// opensOutside reports whether the policy lets connections go to addresses that
// stand for the internet: then reaching them proves nothing. An entry that names
// a whole top-level domain is no such thing; the attacker's domain is chosen
// outside it.
func opensOutside(e *policy.Evaluator) bool {
	for _, prefix := range []netip.Prefix{probes.DefaultOutside4, probes.DefaultOutside6} {
		for i := range outsideSamples {
			if _, denied := e.Denies(host.FromAddr(nonce.AddrFor(fmt.Sprintf("sample-%d", i), prefix))); !denied {
				return true
			}
		}
	}
	return false
}

// openTarget is what is asked for where the policy names no host because it
// allows the whole internet.
const openTarget = "www.wallproof-world.example"

// target picks the allowed host: one whose requests the proxy sees, that takes a
// GET and asks for no credential is best.
func (r *roles) target(e *policy.Evaluator, p *policy.Policy) {
	best := -1
	for _, s := range e.Allowed(maxSamples) {
		name := s.Request.Host.String()
		if _, ok := r.hosts[name]; !ok {
			r.hosts[name] = witness.HostAllowed
		}
		if domain, ok := strings.CutPrefix(s.Entry, "*."); ok && r.wildcard == "" {
			r.wildcard, _, _ = strings.Cut(domain, "/")
			r.hosts["*."+r.wildcard] = witness.HostAllowed
		}
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
		if score > best {
			best = score
			r.allowed = &s
		}
	}
	if r.allowed == nil && r.internet {
		h, err := host.Parse(openTarget)
		if err != nil {
			return
		}
		open := policy.Request{Scheme: "https", Host: h, Port: 443, Method: "GET", Path: "/"}
		if !e.Request(open).Allowed() {
			return
		}
		r.hosts[openTarget] = witness.HostAllowed
		r.allowed = &policy.Sample{Entry: "the open internet", Request: open}
	}
	if r.allowed == nil {
		return
	}
	r.inspected = e.Name(r.allowed.Request.Host, r.allowed.Request.Port).Intercept
	r.write = takesBody(e, r.allowed.Request)
	r.blocked = blockedBeside(e, r.allowed.Request)
	for _, b := range p.Block {
		if b.Match != policy.MatchCIDR && len(b.Ports)+len(b.Methods)+len(b.Paths) == 0 {
			r.blocked.Host, r.blocked.Addr = b.Host, hostPair(b.Host, 0)
			break
		}
	}
}

// takesBody reports whether the policy allows a POST where it allows a request.
func takesBody(e *policy.Evaluator, r policy.Request) bool {
	r.Method = "POST"
	return e.Request(r).Allowed()
}

// blockedBeside looks for things that the policy refuses close to an allowed
// request.
func blockedBeside(e *policy.Evaluator, req policy.Request) probes.Blocked {
	var b probes.Blocked
	denied := func(change func(*policy.Request)) bool {
		q := req
		change(&q)
		return !e.Request(q).Allowed()
	}
	for _, p := range []string{"/private/", "/admin/", "/wallproof-private/"} {
		if denied(func(q *policy.Request) { q.Path = p }) {
			b.Path = p
			break
		}
	}
	for _, m := range []string{"DELETE", "PUT", "POST"} {
		if denied(func(q *policy.Request) { q.Method = m }) {
			b.Method = m
			break
		}
	}
	for _, p := range []uint16{8443, 22, 8080} {
		if denied(func(q *policy.Request) { q.Port = p }) {
			b.Port = int(p)
			break
		}
	}
	if denied(func(q *policy.Request) { q.Scheme, q.Port = "http", 80 }) {
		b.Scheme = "http"
	}
	return b
}

// secrets picks requests into which a secret is injected, one a host.
func (r *roles) secrets(e *policy.Evaluator) {
	var seen []string
	for _, s := range e.Injected() {
		name := s.Request.Host.String()
		rule := e.Injection(s.Request)
		if rule == nil || len(rule.Set) == 0 || slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		r.hosts[name] = witness.HostAllowed
		r.injected = append(r.injected, injected{sample: s, setting: rule.Set[0]})
	}
}

// withoutSecret picks an allowed request to a host that no secret is for: the
// target itself where it is one.
func (r *roles) withoutSecret(e *policy.Evaluator) *policy.Sample {
	candidates := e.Allowed(maxSamples)
	if r.allowed != nil {
		candidates = append([]policy.Sample{*r.allowed}, candidates...)
	}
	for _, s := range candidates {
		secret := func(i injected) bool { return i.sample.Request.Host == s.Request.Host }
		if len(s.Secrets) == 0 && !slices.ContainsFunc(r.injected, secret) {
			return &s
		}
	}
	return nil
}

// broker picks the brokered repository: one that may be pushed to is best.
func (r *roles) broker(e *policy.Evaluator) {
	for _, l := range e.Brokered() {
		r.hosts[l.Broker.Host] = witness.HostForge
		if u, err := url.Parse(l.Broker.API); err == nil && u.Hostname() != "" {
			r.hosts[u.Hostname()] = witness.HostForge
		}
		if r.lease == nil || (len(r.lease.Repository.Push) == 0 && len(l.Repository.Push) > 0) {
			r.lease = &l
		}
	}
}

func (r *roles) model(p *policy.Policy) {
	if p.Model == nil {
		return
	}
	r.modelHost = p.Model.Host.String()
	r.hosts[r.modelHost] = witness.HostModel
	// In the control the fixed name is one like any other, and leads to the provider.
	r.hosts[policy.ModelHost] = witness.HostModel
}

// attacker finds a domain that the policy does not allow. Under a policy that
// opens the internet there is none, and the techniques that need one do not
// apply.
func (r *roles) attacker(e *policy.Evaluator) error {
	for _, suffix := range outsideSuffixes {
		h, err := host.Parse("x." + suffix)
		if err != nil {
			return fmt.Errorf("parse the attacker's domain: %w", err)
		}
		if _, denied := e.Denies(h); denied {
			r.suffix = suffix
			return nil
		}
	}
	r.suffix = outsideSuffixes[0]
	if !r.internet {
		return fmt.Errorf("the policy allows every name below %s; the battery needs one that it denies", strings.Join(outsideSuffixes, ", "))
	}
	return nil
}

// unmet returns, for each requirement that the policy does not meet, the fact
// that says so.
func (r *roles) unmet() map[catalog.Requirement]string {
	out := map[catalog.Requirement]string{}
	miss := func(missing bool, req catalog.Requirement, fact string) {
		if missing {
			out[req] = fact
		}
	}
	miss(len(r.injected) == 0, catalog.NeedsInjection, "the policy injects no secret")
	miss(r.beside == nil, catalog.NeedsSecondHost, "the policy allows no host beside those that a secret is for")
	miss(r.lease == nil, catalog.NeedsBroker, "the policy brokers no repository")
	miss(r.internet, catalog.NeedsNoInternet, "the policy allows the open internet")
	miss(r.private, catalog.NeedsNoPrivate, "the policy opens a private range")
	miss(r.allowed == nil, catalog.NeedsAllowedHost, "the policy allows no host")
	miss(!r.write, catalog.NeedsWrite, "the policy allows no request with a body at the allowed host")
	miss(r.blocked.Path == "", catalog.NeedsBlockedPath, "the policy refuses no path at the allowed host")
	miss(r.blocked.Host == "", catalog.NeedsBlockedHost, "the policy names no host as blocked")
	miss(r.wildcard == "", catalog.NeedsWildcard, "the policy allows no names below a domain")
	miss(r.metadata, catalog.NeedsNoMetadata, "the policy opens a metadata service")
	miss(r.blocked.Port == 0, catalog.NeedsBlockedPort, "the policy refuses no port of the allowed host")
	miss(r.blocked.Method == "", catalog.NeedsBlockedMethod, "the policy refuses no method at the allowed host")
	miss(r.blocked.Scheme == "", catalog.NeedsBlockedScheme, "the policy does not refuse plain HTTP to the allowed host")
	miss(!r.inspected, catalog.NeedsInspection, "no rule of the policy needs sight of requests to the allowed host, so TLS to it is passed on unread")
	miss(r.modelHost == "", catalog.NeedsModel, "the policy has no model")
	return out
}

// hostPair is the world's addresses of a name, with the port where there is one.
func hostPair(name string, port uint16) probes.Pair {
	if port == 0 {
		return probes.Pair{V4: addr.Host4(name).String(), V6: addr.Host6(name).String()}
	}
	return probes.Pair{V4: fmt.Sprintf("%s:%d", addr.Host4(name), port), V6: fmt.Sprintf("[%s]:%d", addr.Host6(name), port)}
}

// headerValue is the value of a header field that carries a secret, or what
// stands in its place.
func headerValue(s policy.Setting, value string) string {
	switch s.As {
	case policy.InjectBearer:
		return "Bearer " + value
	case policy.InjectBasic:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(s.Username+":"+value))
	}
	return s.Prefix + value
}

// otherRepository names a repository at the same forge that no policy is about.
func otherRepository(repo string) string {
	owner, _, _ := strings.Cut(repo, "/")
	return owner + "/wallproof-other"
}
