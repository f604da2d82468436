package policy

import (
	"net/netip"

	"github.com/wallproof/wallproof/policy/host"
)

// injections holds the injection rules by where they apply.
type injections struct {
	byName map[uint32][]*Rule // by name id
	byAddr map[netip.Addr][]*Rule
}

// applies reports whether a rule is for this relation of host and node.
func (r *Rule) applies(kinds uint8) bool {
	if r.Match == MatchSubdomains {
		return kinds&ruleBelow != 0
	}
	return kinds&ruleExact != 0
}

func (in *injections) atPort(id uint32, kinds uint8, port uint16) bool {
	for _, r := range in.byName[id] {
		if r.applies(kinds) && containsPort(r.Ports, port) {
			return true
		}
	}
	return false
}

func (in *injections) atAddress(a netip.Addr, port uint16) bool {
	for _, r := range in.byAddr[a] {
		if containsPort(r.Ports, port) {
			return true
		}
	}
	return false
}

// Injection returns the rule that applies to a request, or nil. It does not ask
// whether the request is allowed, nor whether the connection is to the host that
// the request names; the caller has made sure of both. A request in clear gets
// nothing unless the rule says so, nor does one whose path is ambiguous.
func (e *Evaluator) Injection(r Request) *Rule {
	if len(e.inject.byName) == 0 && len(e.inject.byAddr) == 0 {
		return nil
	}
	path, err := host.CleanPath(r.Path)
	if err != nil {
		return nil
	}
	if r.Host.IsAddr() {
		return longest(e.inject.byAddr[r.Host.Addr()], ruleExact, r, path)
	}
	for walk := e.walk(r.Host.Name()); walk.next(); {
		if walk.node.flags&nodeInject == 0 {
			continue
		}
		if rule := longest(e.inject.byName[walk.id], walk.kinds(), r, path); rule != nil {
			return rule
		}
	}
	return nil
}

// longest returns the matching rule with the longest path. There are no two of
// one length, since rules of equal specificity are refused.
func longest(rules []*Rule, kinds uint8, r Request, path string) *Rule {
	var best *Rule
	for _, rule := range rules {
		if rule.applies(kinds) && containsPort(rule.Ports, r.Port) && (rule.Cleartext || r.Scheme == "https") &&
			host.HasPrefix(path, rule.Path) && (best == nil || len(rule.Path) > len(best.Path)) {
			best = rule
		}
	}
	return best
}
