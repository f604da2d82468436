package policy

import (
	"slices"

	"github.com/wallproof/wallproof/policy/host"
)

// Routing is how a sandbox's connections reach the proxy.
type Routing string

// The routings.
const (
	RoutingSelective Routing = "selective" // only the hosts that the policy names
	RoutingCatchAll  Routing = "catch-all" // every connection; the proxy is the only way out
)

// RoutingPlan says how to route and why.
type RoutingPlan struct {
	Routing Routing  `json:"routing"`
	Why     string   `json:"why,omitempty"`   // what makes it catch-all, "" for selective
	Line    int      `json:"line,omitempty"`  // of the entry that does
	Hosts   []string `json:"hosts,omitempty"` // selective: the exact names to redirect, sorted
}

// Routing derives the routing from the policy. Selective routing is possible
// only when the default is allow and every block entry and injection rule is for
// one exact host.
func (e *Evaluator) Routing() RoutingPlan {
	plan := RoutingPlan{Routing: RoutingCatchAll}
	p := e.policy
	switch {
	case !e.mode.DefaultAllows():
		plan.Why = "mode " + string(e.mode) + " denies what it does not name"
		return plan
	case p.Egress != nil && e.phase == PhaseAgent:
		plan.Why, plan.Line = "traffic leaves through an egress agent", p.Egress.Pos.Line
		return plan
	}
	var hosts []string
	e.set.each(func(r ref) bool {
		switch {
		case r.rule.flags&ruleAllow != 0:
			if e.set.specs[r.rule.spec].pin != nil && r.isName {
				hosts = append(hosts, e.set.names.Name(r.node))
			}
		case !r.isName || r.rule.flags&(ruleExact|ruleBelow) != ruleExact:
			plan.Why, plan.Line = "the block entry "+e.set.text(r)+" is not for one exact host", int(r.rule.line)
		default:
			hosts = append(hosts, e.set.names.Name(r.node))
		}
		return plan.Why == ""
	})
	if plan.Why == "" && e.phase == PhaseAgent {
		for _, s := range p.Secrets {
			for _, r := range s.Inject {
				if r.Match != MatchExact {
					plan.Why, plan.Line = "the injection rule "+r.String()+" is not for one exact host", r.Pos.Line
				}
				hosts = append(hosts, r.Host)
			}
		}
		for _, b := range p.Broker {
			hosts = append(hosts, b.Host)
			if u, err := host.ParseURL(b.API); err == nil {
				hosts = append(hosts, u.Host.String())
			}
		}
		if p.Model != nil {
			hosts = append(hosts, ModelHost)
		}
	}
	if plan.Why != "" {
		return plan
	}
	slices.Sort(hosts)
	plan.Routing, plan.Hosts = RoutingSelective, slices.Compact(hosts)
	return plan
}

// NothingToEnforce reports whether the policy blocks, injects, brokers, pins
// and serves nothing beyond what every policy denies.
func (e *Evaluator) NothingToEnforce() bool {
	plan := e.Routing()
	return plan.Routing == RoutingSelective && len(plan.Hosts) == 0 && (e.phase != PhaseAgent || len(e.policy.Services) == 0)
}
