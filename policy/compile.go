package policy

import (
	"fmt"
	"net/netip"

	"github.com/wallproof/wallproof/policy/host"
)

// Compile builds the evaluator of the agent phase, and those of set-up and
// verifier with it (see Phase). A policy that contradicts itself is refused; the
// error is an *Error. The policy must not be changed afterwards.
func Compile(p *Policy) (*Evaluator, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	for _, pin := range p.pins() {
		if pin.Lockfile != "" && !pin.loaded {
			return nil, lockfileError(p.Source, pin)
		}
	}
	digest, err := p.Digest()
	if err != nil {
		return nil, err
	}
	slim := p.withoutEntries()
	all := map[Phase]*Evaluator{}
	for _, phase := range []Phase{PhaseSetup, PhaseAgent, PhaseVerifier} {
		e := &Evaluator{policy: slim, phase: phase, mode: p.Phase(phase).Mode, digest: digest, others: all}
		if err := e.build(p.Phase(phase)); err != nil {
			err.File = p.Source
			return nil, err
		}
		all[phase] = e
	}
	e := all[PhaseAgent]
	if err := e.checkReach(); err != nil {
		err.File = p.Source
		return nil, err
	}
	return e, nil
}

// withoutEntries returns a copy that does not hold the entries in memory.
func (p *Policy) withoutEntries() *Policy {
	slim := *p
	slim.Allow, slim.Block = nil, nil
	slim.Setup.Allow, slim.Setup.Block = nil, nil
	slim.Verifier.Allow, slim.Verifier.Block = nil, nil
	if m := p.Model; m != nil {
		model := *m
		model.HostedSearch = p.searchRule()
		slim.Model = &model
	}
	return &slim
}

func (e *Evaluator) build(pp PhasePolicy) *Error {
	extra := append(host.LocalNames(), host.MetadataNames()...)
	agent := e.phase == PhaseAgent
	if agent {
		for _, s := range e.policy.Secrets {
			for _, r := range s.Inject {
				if _, err := netip.ParseAddr(r.Host); err != nil {
					extra = append(extra, r.Host)
				}
			}
		}
		for _, b := range e.policy.Broker {
			extra = append(extra, b.Host)
			if u, err := host.ParseURL(b.API); err == nil && !u.Host.IsAddr() {
				extra = append(extra, u.Host.Name())
			}
		}
	}
	set, err := newRuleSet(pp, extra)
	if err != nil {
		return err
	}
	e.set = set
	if !agent {
		return nil
	}
	e.addRules()
	e.addBrokers()
	e.services = map[string]*Service{}
	for i := range e.policy.Services {
		e.services[e.policy.Services[i].Name] = &e.policy.Services[i]
	}
	return nil
}

// addBrokers marks the hosts that leases are used at: those of the git
// repositories, and those of the REST interfaces, where reads of a brokered
// repository get a lease too. The proxy has to see requests to either.
func (e *Evaluator) addBrokers() {
	e.brokers, e.forges = map[uint32][]*Broker{}, map[uint32][]uint16{}
	for i := range e.policy.Broker {
		b := &e.policy.Broker[i]
		id, n := e.set.names.Find(b.Host)
		e.brokers[id] = append(e.brokers[id], b)
		n.flags |= nodeBroker
		switch u, err := host.ParseURL(b.API); {
		case err != nil:
		case u.Host.IsAddr():
			e.forgesAt = append(e.forgesAt, netip.AddrPortFrom(u.Host.Addr(), u.Port))
		default:
			id, n := e.set.names.Find(u.Host.Name())
			e.forges[id] = append(e.forges[id], u.Port)
			n.flags |= nodeForge
		}
	}
}

func (e *Evaluator) addRules() {
	e.inject = injections{byName: map[uint32][]*Rule{}, byAddr: map[netip.Addr][]*Rule{}}
	for i := range e.policy.Secrets {
		for j := range e.policy.Secrets[i].Inject {
			r := &e.policy.Secrets[i].Inject[j]
			if a, err := netip.ParseAddr(r.Host); err == nil {
				e.inject.byAddr[a] = append(e.inject.byAddr[a], r)
				continue
			}
			id, n := e.set.names.Find(r.Host)
			e.inject.byName[id] = append(e.inject.byName[id], r)
			n.flags |= nodeInject
		}
	}
}

// checkReach refuses a model that the policy blocks and a broker whose host it
// does not allow.
func (e *Evaluator) checkReach() *Error {
	if m := e.policy.Model; m != nil {
		if d := e.Name(m.Host, m.Port); d.Reason == ReasonBlockEntry {
			return m.Pos.error(fmt.Sprintf("the model's host %s is blocked by %s (line %d); the model's route is an edge like any other and is not let past a block", m.Host, d.Entry, d.Line))
		}
	}
	for i := range e.policy.Broker {
		b := &e.policy.Broker[i]
		h, err := host.Parse(b.Host)
		if err != nil {
			return b.Pos.error(err.Error())
		}
		if d := e.Name(h, b.Port); !d.Allowed() {
			return b.Pos.error(fmt.Sprintf("the broker's host %s is not reachable at port %d (%s), so no lease could be used; allow it", b.Host, b.Port, d.Reason))
		}
	}
	return nil
}

// ModelAddress decides whether the model's endpoint may be dialled at an address
// that a lookup of its host gave. A private address needs an entry that opens it,
// or has to be what the model's URL itself says; metadata services are never one.
func (e *Evaluator) ModelAddress(a netip.Addr) Decision {
	m := e.policy.Model
	if m == nil {
		return Decision{Reason: ReasonDefaultDeny}
	}
	a = a.WithZone("").Unmap()
	d := e.layers(a, m.Port)
	if !d.Allowed() && d.Reason != ReasonBlockEntry && d.Reason != Reason(host.ClassMetadata) && m.Host.Addr() == a {
		d = Decision{Verdict: Allow, Reason: ReasonModel, Entry: m.URL, Line: m.Pos.Line}
	}
	return d
}
