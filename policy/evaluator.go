package policy

import (
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
)

// Evaluator answers for one phase of a policy. It is immutable and safe for
// concurrent use. Name, Address, Request and Injection do not allocate for
// requests in ordinary form.
type Evaluator struct {
	policy   *Policy // without entries
	phase    Phase
	mode     Mode
	set      *ruleSet
	digest   string
	others   map[Phase]*Evaluator
	services map[string]*Service
	inject   injections
	brokers  map[uint32][]*Broker // by name id
	forges   map[uint32][]uint16  // ports of brokers' REST interfaces, by name id
	forgesAt []netip.AddrPort     // those whose host is an address
}

// Request is what a proxy knows once it has read a request's head.
type Request struct {
	Scheme  string // "http" or "https"
	Host    host.Host
	Port    uint16
	Method  string
	Path    string // raw, as sent, with or without query
	Upgrade bool   // asks for WebSocket; an entry that lists methods has to list UPGRADE too
}

// Phase returns the evaluator of another phase of the same policy. Secrets,
// broker, model and services belong to the agent phase alone.
func (e *Evaluator) Phase(p Phase) *Evaluator { return e.others[p] }

// Digest returns the policy's hash, "sha256:<hex>". It is that of the whole
// document, whichever phase is asked.
func (e *Evaluator) Digest() string { return e.digest }

// Policy returns what the evaluator was compiled from, without the entries. It
// must not be changed.
func (e *Evaluator) Policy() *Policy { return e.policy }

// Mode returns the mode of the evaluator's phase.
func (e *Evaluator) Mode() Mode { return e.mode }

// Name is the first gate, before any lookup: may h be reached at port at all?
// Port 0 stands for any port, for name queries. For an address it includes the
// second gate.
func (e *Evaluator) Name(h host.Host, port uint16) Decision {
	d, _ := e.name(h, port)
	return d
}

// name returns the decision, and whether it depends on the request.
func (e *Evaluator) name(h host.Host, port uint16) (Decision, bool) {
	switch {
	case h.IsZero():
		return Decision{Reason: ReasonBadHost}, false
	case h.IsAddr():
		return e.literal(h.Addr(), port)
	}
	if d, ok := e.own(h.Name(), port); ok {
		return d, false
	}
	var g gate
	intercept, special := false, Reason("")
	walk := e.walk(h.Name())
	for walk.next() {
		n := walk.node
		kinds := walk.kinds()
		if !g.decided {
			e.set.gate(&g, *n, walk.id, true, kinds, port)
		}
		if n.flags&(nodeLoopback|nodeMetadata) != 0 {
			special = ReasonMetadataName
			if n.flags&nodeLoopback != 0 {
				special = ReasonLocalhost
			}
		}
		if n.flags&nodeInject != 0 {
			intercept = intercept || e.inject.atPort(walk.id, kinds, port)
		}
		if n.flags&nodeBroker != 0 && walk.exact() {
			intercept = intercept || e.brokersAt(walk.id, port)
		}
		if n.flags&nodeForge != 0 && walk.exact() {
			intercept = intercept || e.forgeAt(walk.id, port)
		}
	}
	if special != "" && !(g.decided && g.verdict == Allow && e.names(g.by, h.Name())) {
		return Decision{Reason: special}, false
	}
	d := e.decision(&g)
	d.Intercept = intercept || g.conditional
	return d, g.conditional
}

// names reports whether a rule is for exactly this name.
func (e *Evaluator) names(r ref, name string) bool {
	return r.rule != nil && r.isName && r.rule.flags&ruleExact != 0 && e.set.names.Name(r.node) == name
}

// own decides on names that the proxy answers itself: the model's and those of
// services.
func (e *Evaluator) own(name string, port uint16) (Decision, bool) {
	if name == reservedName || strings.HasSuffix(name, "."+reservedName) {
		if name == ModelHost && e.policy.Model != nil && e.phase == PhaseAgent {
			return Decision{Verdict: Allow, Reason: ReasonModel, Entry: ModelHost, Line: e.policy.Model.Pos.Line, Intercept: true}, true
		}
		return Decision{Reason: ReasonDefaultDeny}, true
	}
	s := e.services[name]
	if s == nil {
		return Decision{}, false
	}
	d := Decision{Reason: ReasonPort, Entry: s.Name, Line: s.Pos.Line}
	for _, p := range s.Ports {
		if p == port || port == 0 {
			d.Verdict, d.Reason = Allow, ReasonService
		}
	}
	return d, true
}

// decision turns what the entries say into a decision; what none decides the
// mode does.
func (e *Evaluator) decision(g *gate) Decision {
	d := Decision{Verdict: g.verdict, Entry: e.set.text(g.by)}
	switch {
	case g.decided:
		d.Line = int(g.by.rule.line)
		d.Reason = ReasonBlockEntry
		if g.verdict == Allow {
			d.Reason = ReasonAllowEntry
			d.Pin = e.set.specs[g.by.rule.spec].pin
		}
	case e.mode.DefaultAllows():
		d.Verdict, d.Reason = Allow, ReasonDefaultAllow
	case g.nearly != "":
		d.Reason, d.Entry, d.Line = g.nearly, e.set.text(g.near), int(g.near.rule.line)
	default:
		d.Reason = ReasonDefaultDeny
	}
	return d
}

// literal decides on an address that a client gave instead of a name: it must be
// open as an address, and allowed like a name.
func (e *Evaluator) literal(a netip.Addr, port uint16) (Decision, bool) {
	if d := e.layers(a, port); !d.Allowed() {
		return d, false
	}
	var g gate
	e.set.eachNode(a, func(n node, id uint32) bool {
		e.set.gate(&g, n, id, false, ruleCIDR, port)
		return !g.decided
	})
	d := e.decision(&g)
	d.Intercept = g.conditional || e.inject.atAddress(a, port) || e.forgeAtAddress(a, port)
	return d, g.conditional
}

// Address is the second gate: may a, which a lookup of h gave, be dialled for
// h? The caller has asked Name before, and dials exactly a. For the model's name
// and those of services the caller knows the address itself and does not ask.
func (e *Evaluator) Address(h host.Host, port uint16, a netip.Addr) Decision {
	a = a.WithZone("").Unmap()
	if h.IsAddr() {
		if h.Addr() != a {
			return Decision{Reason: ReasonBadHost}
		}
		return e.Name(h, port)
	}
	return e.layers(a, port)
}

// layers asks for every address that a connection to a would reach.
func (e *Evaluator) layers(a netip.Addr, port uint16) Decision {
	c := host.Classify(a)
	if c.Len() == 0 {
		return Decision{Reason: ReasonBadHost}
	}
	d := Decision{Verdict: Allow, Reason: ReasonPublic}
	for i := range c.Len() {
		v, why, by := e.set.opens(c.Layer(i), port)
		if v == Deny {
			if why != ReasonBlockEntry {
				why = Reason(c.Class)
			}
			return Decision{Reason: why, Entry: e.set.text(by), Line: by.line()}
		}
		if why == ReasonOpened {
			d.Reason, d.Entry, d.Line = why, e.set.text(by), by.line()
		}
	}
	return d
}

func (r ref) line() int {
	if r.rule == nil {
		return 0
	}
	return int(r.rule.line)
}

// Request decides on a request. It includes Name, not Address.
func (e *Evaluator) Request(r Request) Decision {
	first, conditional := e.name(r.Host, r.Port)
	if !first.Allowed() || !conditional {
		return first
	}
	q := query{port: r.Port, method: e.set.methodBit(r.Method), wants: r.Upgrade}
	if r.Upgrade {
		q.upgrade = e.set.methodBit(methodUpgrade)
	}
	var buf [512]byte
	clean, err := host.CleanPath(r.Path)
	if err == nil {
		q.clean = clean
		q.folded = host.FoldPath(buf[:0], clean)
	}
	var g gate
	ambiguous := false
	each := func(n node, id uint32, isName bool, kinds uint8) {
		if err != nil && n.flags&nodePaths != 0 {
			ambiguous = true
			return
		}
		e.set.request(&g, n, id, isName, kinds, &q)
	}
	if r.Host.IsAddr() {
		e.set.eachNode(r.Host.Addr(), func(n node, id uint32) bool {
			each(n, id, false, ruleCIDR)
			return !g.decided && !ambiguous
		})
	} else {
		for walk := e.walk(r.Host.Name()); !g.decided && !ambiguous && walk.next(); {
			each(*walk.node, walk.id, true, walk.kinds())
		}
	}
	if ambiguous {
		return Decision{Reason: ReasonAmbiguousPath, Intercept: true}
	}
	d := e.decision(&g)
	d.Intercept = true
	return d
}

// walk goes through the nodes of a name, the name itself first, then those of
// its parents.
type walk struct {
	set   *ruleSet
	name  string
	start int // of the part that comes next
	depth int // labels of that part
	at    int // start of the part that id is for
	id    uint32
	node  *node
}

func (e *Evaluator) walk(name string) walk {
	return walk{set: e.set, name: name, depth: strings.Count(name, ".") + 1}
}

func (w *walk) next() bool {
	for w.depth > 0 {
		part := w.name[w.start:]
		w.node = nil
		if w.set.names.HasDepth(w.depth) {
			w.id, w.node = w.set.names.Find(part)
		}
		w.at = w.start
		w.depth--
		w.start += strings.IndexByte(part, '.') + 1
		if w.node != nil {
			return true
		}
	}
	return false
}

func (w *walk) exact() bool { return w.at == 0 }

// kinds returns which rules of the node apply: those for its own name, or those
// for names below it.
func (w *walk) kinds() uint8 {
	if w.exact() {
		return ruleExact
	}
	return ruleBelow
}
