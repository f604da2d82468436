package policy

import (
	"net/netip"

	"github.com/wallproof/wallproof/policy/host"
)

// allPrefixLengths is more than the length of any prefix.
const allPrefixLengths = 128

// gate is what the entries say of a host and port before a request is known.
type gate struct {
	decided bool
	verdict Verdict
	by      ref
	// conditional: whether a request is allowed depends on its method or path, or
	// its response is pinned.
	conditional bool
	near        ref    // an allow rule that fails for a reason
	nearly      Reason // that reason
}

// gate looks at the rules of one node. Later nodes are less specific, so the
// first that decides does.
func (s *ruleSet) gate(g *gate, n node, id uint32, isName bool, kinds uint8, port uint16) {
	var allow, block *rule
	for i := n.first; i < n.first+uint32(n.roots); i++ {
		r := &s.rules[i]
		if r.flags&kinds == 0 {
			continue
		}
		sp := &s.specs[r.spec]
		switch {
		case !containsPort(sp.ports, port):
			if r.flags&ruleAllow != 0 {
				g.miss(ReasonPort, ref{r, id, isName})
			}
		case r.flags&ruleAllow != 0:
			if allow == nil {
				allow = r
			}
			g.conditional = g.conditional || sp.methods != 0 || sp.pin != nil
		case sp.methods == 0 && (port != 0 || sp.ports == nil):
			block = r
		default: // blocks some methods, or with port 0 some ports
			g.conditional = true
		}
	}
	var byPath *rule
	if n.flags&nodePaths != 0 {
		byPath = s.gatePaths(g, n, id, isName, kinds, port)
	}
	switch {
	case block == nil && allow != nil:
		g.decide(Allow, ref{allow, id, isName})
	case byPath != nil:
		g.decide(Allow, ref{byPath, id, isName})
	case block != nil:
		g.decide(Deny, ref{block, id, isName})
	}
}

// gatePaths returns an allow rule with a path that could match.
func (s *ruleSet) gatePaths(g *gate, n node, id uint32, isName bool, kinds uint8, port uint16) *rule {
	pr := s.paths[n.first]
	var found *rule
	for i := pr.allow; i < pr.block && found == nil; i++ {
		r := &s.rules[i]
		switch {
		case r.flags&kinds == 0:
		case containsPort(s.specs[r.spec].ports, port):
			found = r
			g.conditional = true
		default:
			g.miss(ReasonPort, ref{r, id, isName})
		}
	}
	for i := pr.block; i < pr.end && !g.conditional; i++ {
		r := &s.rules[i]
		g.conditional = r.flags&kinds != 0 && containsPort(s.specs[r.spec].ports, port)
	}
	return found
}

func (g *gate) decide(v Verdict, by ref) { g.decided, g.verdict, g.by = true, v, by }

// miss notes an allow rule that fails for a reason. The most specific comes
// first and stays; a nearer miss (method before path before port) replaces it.
func (g *gate) miss(why Reason, by ref) {
	if nearness(why) > nearness(g.nearly) {
		g.nearly, g.near = why, by
	}
}

func nearness(r Reason) int {
	switch r {
	case ReasonMethod:
		return 3
	case ReasonPath:
		return 2
	case ReasonPort:
		return 1
	}
	return 0
}

// query is a request in the form in which rules compare.
type query struct {
	port    uint16
	method  uint64
	upgrade uint64 // the bit of UPGRADE when the request asks for it
	wants   bool   // it asks for an upgrade
	clean   string
	folded  []byte
}

// meets reports whether a rule's ports and methods fit; why says what does not.
func (s *ruleSet) meets(r *rule, q *query) (ok bool, why Reason) {
	sp := &s.specs[r.spec]
	switch {
	case !containsPort(sp.ports, q.port):
		return false, ReasonPort
	case sp.methods == 0:
		return true, ""
	case r.flags&ruleAllow == 0:
		return sp.methods&(q.method|q.upgrade) != 0, ReasonMethod
	case q.wants && sp.methods&q.upgrade == 0:
		return false, ReasonMethod
	}
	return sp.methods&q.method != 0, ReasonMethod
}

// choice is the best rule so far of one node and one path.
type choice struct{ allow, block *rule }

func (s *ruleSet) consider(c *choice, g *gate, i uint32, at ref, q *query) {
	r := &s.rules[i]
	ok, why := s.meets(r, q)
	switch {
	case ok && r.flags&ruleAllow == 0:
		c.block = r
	case ok:
		// A pinned rule before one that is not: at equal specificity the stricter wins.
		if c.allow == nil || s.specs[c.allow.spec].pin == nil {
			c.allow = r
		}
	case r.flags&ruleAllow != 0:
		at.rule = r
		g.miss(why, at)
	}
}

func (c *choice) settle(g *gate, at ref) bool {
	switch {
	case c.block != nil:
		at.rule = c.block
		g.decide(Deny, at)
	case c.allow != nil:
		at.rule = c.allow
		g.decide(Allow, at)
	}
	return g.decided
}

// request looks at the rules of one node for a request: the longest path that
// matches, then the rules without a path.
func (s *ruleSet) request(g *gate, n node, id uint32, isName bool, kinds uint8, q *query) {
	at := ref{node: id, isName: isName}
	if n.flags&nodePaths != 0 && s.requestPaths(g, n, at, kinds, q) {
		return
	}
	var c choice
	for i := n.first; i < n.first+uint32(n.roots); i++ {
		if s.rules[i].flags&kinds != 0 {
			s.consider(&c, g, i, at, q)
		}
	}
	c.settle(g, at)
}

func (s *ruleSet) requestPaths(g *gate, n node, at ref, kinds uint8, q *query) bool {
	pr := s.paths[n.first]
	for end := len(q.folded); end > 1; {
		prefix := q.folded[:end]
		var c choice
		for _, part := range [2][2]uint32{{pr.allow, pr.block}, {pr.block, pr.end}} {
			for i := s.lowerBound(part[0], part[1], prefix); i < part[1] && s.folded(&s.rules[i]) == string(prefix); i++ {
				r := &s.rules[i]
				if r.flags&kinds == 0 || r.flags&ruleAllow != 0 && !host.HasPrefix(q.clean, s.path(r)) {
					continue
				}
				s.consider(&c, g, i, at, q)
			}
		}
		if c.settle(g, at) {
			return true
		}
		for end--; end > 0 && q.folded[end] != '/'; end-- {
		}
	}
	for i := pr.allow; i < pr.block && nearness(g.nearly) < nearness(ReasonPath); i++ {
		if r := &s.rules[i]; r.flags&kinds != 0 && containsPort(s.specs[r.spec].ports, q.port) {
			at.rule = r
			g.miss(ReasonPath, at)
		}
	}
	return false
}

// lowerBound returns the first rule from lo to hi whose folded path is not less
// than path.
func (s *ruleSet) lowerBound(lo, hi uint32, path []byte) uint32 {
	for lo < hi {
		mid := lo + (hi-lo)/2
		if s.folded(&s.rules[mid]) < string(path) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// opens decides on one layer of an address: the longest range that an entry
// names decides, block before allow, and an entry opens only the special range
// that contains it.
func (s *ruleSet) opens(l host.Layer, port uint16) (v Verdict, why Reason, by ref) {
	for most := allPrefixLengths; ; {
		id, length, ok := s.prefixes.Find(l.Addr, most)
		if !ok {
			break
		}
		allow, block := s.atAddress(s.prefixNodes[id], port)
		switch {
		case block != nil:
			return Deny, ReasonBlockEntry, ref{block, id, false}
		case allow != nil && l.Class == host.ClassPublic:
			return Allow, ReasonPublic, ref{}
		case allow != nil && length >= l.Range.Bits():
			return Allow, ReasonOpened, ref{allow, id, false}
		}
		most = length - 1
	}
	if l.Class == host.ClassPublic {
		return Allow, ReasonPublic, ref{}
	}
	return Deny, Reason(l.Class), ref{}
}

// atAddress returns what a node says of an address as such: an allow rule opens
// it whatever its methods and paths, a block rule closes it when it has none.
func (s *ruleSet) atAddress(n node, port uint16) (allow, block *rule) {
	end := n.first + uint32(n.roots)
	if n.flags&nodePaths != 0 {
		end = s.paths[n.first].block
	}
	for i := n.first; i < end; i++ {
		r := &s.rules[i]
		sp := &s.specs[r.spec]
		switch {
		case !containsPort(sp.ports, port):
		case r.flags&ruleAllow != 0:
			allow = r
		case sp.methods == 0 && (port != 0 || sp.ports == nil):
			block = r
		}
	}
	return allow, block
}

// eachNode calls fn for the nodes of an address, longest prefix first, until it
// returns false.
func (s *ruleSet) eachNode(a netip.Addr, fn func(n node, id uint32) bool) {
	for most := allPrefixLengths; ; {
		id, length, ok := s.prefixes.Find(a, most)
		if !ok || !fn(s.prefixNodes[id], id) {
			return
		}
		most = length - 1
	}
}
