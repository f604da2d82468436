package policy

import (
	"net/netip"

	"github.com/wallproof/wallproof/policy/host"
)

// Sample is a concrete request that an entry or rule is about, for tests that
// have to go through a policy and not only read it.
type Sample struct {
	Entry   string   // as in Decision.Entry
	Line    int      // where it stands in the document
	Request Request  // what to send; the evaluator allows it
	Secrets []string // injected into it, by name
	Wild    bool     // the host is one of many that the entry covers
}

// sampleLabels are put in front of a wildcard's name. There are several, in
// case a block entry is for one of them.
var sampleLabels = []string{"wallproof-probe", "wallproof-sample", "wallproof-example"}

// Allowed returns one concrete allowed request for each allow entry for which
// there is one: names in the document's order, those of packs, then ranges; at
// most max.
func (e *Evaluator) Allowed(max int) []Sample {
	var out []Sample
	e.set.each(func(r ref) bool {
		if r.rule.flags&ruleAllow != 0 {
			if s, ok := e.sample(r); ok {
				out = append(out, s)
			}
		}
		return len(out) < max
	})
	return out
}

// sample makes a request for an allow rule, and asks whether it is allowed.
func (e *Evaluator) sample(r ref) (Sample, bool) {
	sp := &e.set.specs[r.rule.spec]
	s := Sample{Entry: e.set.text(r), Line: int(r.rule.line), Request: Request{Path: "/", Method: "GET"}}
	if r.rule.pathAt != 0 {
		s.Request.Path = host.EncodePath(e.set.path(r.rule))
	}
	if sp.methods != 0 {
		s.Request.Method = e.methodOf(sp.methods)
	}
	var hosts []host.Host
	switch {
	case !r.isName:
		p := e.set.prefixOf(r)
		s.Wild = !p.IsSingleIP()
		for a, i := p.Addr(), 0; i < 3 && p.Contains(a); a, i = a.Next(), i+1 {
			hosts = append(hosts, host.FromAddr(a))
		}
	case r.rule.flags&ruleExact != 0:
		hosts = parsed(e.set.names.Name(r.node))
	default:
		s.Wild = true
		for _, label := range sampleLabels {
			hosts = append(hosts, parsed(label+"."+e.set.names.Name(r.node))...)
		}
	}
	for _, h := range hosts {
		for _, port := range samplePorts(sp.ports) {
			s.Request.Host, s.Request.Port, s.Request.Scheme = h, port, schemeOf(port)
			if e.Request(s.Request).Allowed() {
				s.Secrets = e.secretsOf(s.Request)
				return s, true
			}
		}
	}
	return Sample{}, false
}

func parsed(name string) []host.Host {
	h, err := host.Parse(name)
	if err != nil {
		return nil
	}
	return []host.Host{h}
}

// methodOf returns a method of a set, GET if it is in it.
func (e *Evaluator) methodOf(set uint64) string {
	if set&e.set.methodBit("GET") != 0 {
		return "GET"
	}
	best := ""
	for name, n := range e.set.methods {
		if set&(1<<n) != 0 && name != methodUpgrade && (best == "" || name < best) {
			best = name
		}
	}
	return best
}

// samplePorts returns the ports to try: 443 and 80 when they are in the set,
// then the first of each range.
func samplePorts(set []PortRange) []uint16 {
	var out []uint16
	for _, p := range []uint16{443, 80} {
		if containsPort(set, p) {
			out = append(out, p)
		}
	}
	for _, r := range set {
		out = append(out, r.From)
	}
	return out
}

func schemeOf(port uint16) string {
	if port == 80 {
		return "http"
	}
	return "https"
}

func (e *Evaluator) secretsOf(r Request) []string {
	rule := e.Injection(r)
	if rule == nil {
		return nil
	}
	var out []string
	for _, s := range rule.Set {
		out = append(out, s.Secret)
	}
	return out
}

// Injected returns one concrete request for each injection rule that an allowed
// request can reach, in the document's order.
func (e *Evaluator) Injected() []Sample {
	if e.phase != PhaseAgent {
		return nil
	}
	var out []Sample
	for i := range e.policy.Secrets {
		for j := range e.policy.Secrets[i].Inject {
			if s, ok := e.injectedSample(&e.policy.Secrets[i].Inject[j]); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

func (e *Evaluator) injectedSample(r *Rule) (Sample, bool) {
	s := Sample{Entry: r.String(), Line: r.Pos.Line, Wild: r.Match == MatchSubdomains}
	names := []string{r.Host}
	if s.Wild {
		names = nil
		for _, label := range sampleLabels {
			names = append(names, label+"."+r.Host)
		}
		// The wildcard may be wider than what is allowed below it.
		names = append(names, e.allowedBelow(r.Host)...)
	}
	for _, name := range names {
		for _, h := range parsed(name) {
			for _, port := range samplePorts(r.Ports) {
				for _, method := range []string{"GET", "POST"} {
					q := Request{Scheme: "https", Host: h, Port: port, Method: method, Path: host.EncodePath(r.Path)}
					if e.Request(q).Allowed() && e.Injection(q) == r {
						s.Request, s.Secrets = q, e.secretsOf(q)
						return s, true
					}
				}
			}
		}
	}
	return Sample{}, false
}

// allowedBelow returns names below a name that allow entries are for.
func (e *Evaluator) allowedBelow(name string) []string {
	var out []string
	e.set.each(func(r ref) bool {
		if r.isName && r.rule.flags&ruleAllow != 0 {
			entry := e.set.names.Name(r.node)
			if len(entry) > len(name) && entry[len(entry)-len(name):] == name && entry[len(entry)-len(name)-1] == '.' {
				if r.rule.flags&ruleExact != 0 {
					out = append(out, entry)
					return len(out) < maxShownHosts
				}
				for _, label := range sampleLabels {
					out = append(out, label+"."+entry)
				}
			}
		}
		return len(out) < maxShownHosts
	})
	return out
}

// Brokered returns a lease for each brokered repository, as a push would get it.
func (e *Evaluator) Brokered() []Lease {
	if e.phase != PhaseAgent {
		return nil
	}
	var out []Lease
	for i := range e.policy.Broker {
		b := &e.policy.Broker[i]
		for j := range b.Repositories {
			out = append(out, Lease{Broker: b, Repository: &b.Repositories[j], Name: b.Repositories[j].Name, Service: GitPush})
		}
	}
	return out
}

// Denies reports whether nothing at all may be asked of h, at any port, and the
// decision that says so.
func (e *Evaluator) Denies(h host.Host) (Decision, bool) {
	d := e.Name(h, 0)
	return d, !d.Allowed()
}

// DeniesAddress reports whether an address may not be dialled at any port,
// under whatever name.
func (e *Evaluator) DeniesAddress(a netip.Addr) (Decision, bool) {
	d := e.layers(a.WithZone("").Unmap(), 0)
	return d, !d.Allowed()
}
