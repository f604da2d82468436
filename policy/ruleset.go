package policy

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/internal/index"
)

// ruleSet holds the entries of one phase in the form in which they are looked
// up: names and prefixes lead to nodes, a node to its rules. A million entries
// take some 80 bytes each.
type ruleSet struct {
	names       *index.Names[node]
	prefixes    *index.Prefixes
	prefixNodes []node      // by id in prefixes
	prefixTexts index.Texts // by id in prefixes
	rules       []rule
	specs       []spec
	texts       index.Texts          // of rules with a path; see rule.text
	paths       map[uint32]pathRules // by node.first, for nodes with nodePaths
	methods     map[string]uint8     // number of each method that an entry names
}

// node stands for one name or prefix. Its rules without a path lie from first;
// those with one behind them, see pathRules.
type node struct {
	first uint32
	roots uint16
	flags uint8
}

// Flags of a node.
const (
	nodePaths    = 1 << iota // has rules with a path
	nodeInject               // has injection rules
	nodeBroker               // is a broker's host
	nodeLoopback             // is a name of the machine itself
	nodeMetadata             // is a name of a metadata service
	nodeForge                // is the host of a broker's REST interface
)

// pathRules are the rules with a path of one node: allow in rules[allow:block],
// block in rules[block:end], each sorted by folded path.
type pathRules struct{ allow, block, end uint32 }

// rule is one entry, or one path of an entry.
type rule struct {
	line   uint32 // 0 for an entry of a pack
	spec   uint32
	text   uint32 // with pathAt: "example.org/x" in texts; with ruleFolds its folded path is the next text
	flags  uint8
	pathAt uint8 // where the path begins in the text; 0 means no path
}

// Flags of a rule.
const (
	ruleAllow = 1 << iota
	ruleExact // for the node's own name
	ruleBelow // for names below the node's
	ruleCIDR
	ruleFolds // the path differs from its folded form
)

// spec holds the conditions that many rules share.
type spec struct {
	ports   []PortRange // nil: every port
	methods uint64      // 0: every method
	pin     *Pin
}

// methodUpgrade is the pseudo-method that an entry lists to let WebSocket
// through although it limits methods.
const methodUpgrade = "UPGRADE"

const maxMethodKinds = 63

// builder collects rules before they are sorted into place.
type builder struct {
	set   *ruleSet
	items []item
	specs map[specKey]uint32
}

// item is a rule and the node that it belongs to.
type item struct {
	node   uint32 // name id, or prefix id with onPrefix
	rule   rule
	isName bool
}

type specKey struct {
	ports   string
	methods uint64
	pin     *Pin
}

// newRuleSet builds the rules of a phase. extra are names that need a node
// besides those of entries.
func newRuleSet(pp PhasePolicy, extra []string) (*ruleSet, *Error) {
	allow := pp.Allowed()
	s := &ruleSet{
		names:    index.NewNames[node](len(allow) + len(pp.Block) + len(extra) + 64),
		prefixes: index.NewPrefixes(),
		paths:    map[uint32]pathRules{},
		methods:  map[string]uint8{},
	}
	b := &builder{set: s, items: make([]item, 0, len(allow)+len(pp.Block)), specs: map[specKey]uint32{}}
	for _, list := range []struct {
		entries []Entry
		flags   uint8
	}{{allow, ruleAllow}, {pp.Block, 0}} {
		for i := range list.entries {
			if err := b.add(&list.entries[i], list.flags); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range extra {
		if _, err := s.names.Add(name); err != nil {
			return nil, &Error{Message: err.Error()}
		}
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	return s, nil
}

// add turns an entry into one rule for each of its paths.
func (b *builder) add(e *Entry, flags uint8) *Error {
	sp, err := b.spec(e)
	if err != nil {
		return err
	}
	it := item{rule: rule{line: uint32(e.Pos.Line), spec: sp, flags: flags}}
	if e.Pack != "" {
		it.rule.line = 0
	}
	var ierr error
	switch e.Match {
	case MatchCIDR:
		it.rule.flags |= ruleCIDR
		it.node = b.set.prefixes.Add(e.Prefix)
		if int(it.node) == b.set.prefixTexts.Len() {
			_, ierr = b.set.prefixTexts.Add(e.Prefix.String())
		}
	default:
		it.isName = true
		it.rule.flags |= [...]uint8{MatchExact: ruleExact, MatchTree: ruleExact | ruleBelow, MatchSubdomains: ruleBelow}[e.Match]
		it.node, ierr = b.set.names.Add(e.Host)
	}
	if ierr != nil {
		return e.Pos.error(ierr.Error())
	}
	if len(e.Paths) == 0 {
		b.items = append(b.items, it)
	}
	for _, p := range e.Paths {
		if err := b.addPath(it, e, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) addPath(it item, e *Entry, path string) *Error {
	subject := e.Subject()
	it.rule.pathAt = uint8(len(subject))
	var err error
	if it.rule.text, err = b.set.texts.Add(subject + path); err == nil {
		if folded := string(host.FoldPath(nil, path)); folded != path {
			it.rule.flags |= ruleFolds
			_, err = b.set.texts.Add(folded)
		}
	}
	if err != nil {
		return e.Pos.error(err.Error())
	}
	b.items = append(b.items, it)
	return nil
}

// spec returns the number of an entry's conditions.
func (b *builder) spec(e *Entry) (uint32, *Error) {
	var mask uint64
	for _, m := range e.Methods {
		n, ok := b.set.methods[m]
		if !ok {
			if n = uint8(len(b.set.methods)); n > maxMethodKinds {
				return 0, e.Pos.error(fmt.Sprintf("the policy names more than %d different methods", maxMethodKinds+1))
			}
			b.set.methods[m] = n
		}
		mask |= 1 << n
	}
	var key specKey
	if !slices.Equal(e.Ports, httpsOnly) {
		key.ports = fmt.Sprint(e.Ports)
	}
	if e.Ports == nil {
		key.ports = "every"
	}
	key.methods, key.pin = mask, e.Pin
	n, ok := b.specs[key]
	if !ok {
		n = uint32(len(b.set.specs))
		b.specs[key] = n
		b.set.specs = append(b.set.specs, spec{slices.Clone(e.Ports), mask, e.Pin})
	}
	return n, nil
}

// finish sorts the rules to their nodes.
func (b *builder) finish() *Error {
	s := b.set
	slices.SortStableFunc(b.items, b.compare)
	b.items = slices.CompactFunc(b.items, func(x, y item) bool {
		return b.compare(x, y) == 0 && x.rule.spec == y.rule.spec && x.rule.flags == y.rule.flags && b.text(x) == b.text(y)
	})
	s.prefixNodes = make([]node, s.prefixes.Len())
	s.rules = make([]rule, len(b.items))
	for i, it := range b.items {
		s.rules[i] = it.rule
		n := b.nodeOf(it)
		if fresh := i == 0 || b.items[i-1].node != it.node || b.items[i-1].isName != it.isName; fresh {
			n.first = uint32(i)
		}
		if it.rule.pathAt == 0 {
			if n.roots == math.MaxUint16 {
				return &Error{Line: int(it.rule.line), Message: fmt.Sprintf("more than %d entries for one host", math.MaxUint16)}
			}
			n.roots++
			continue
		}
		pr, ok := s.paths[n.first]
		if !ok {
			n.flags |= nodePaths
			pr = pathRules{allow: uint32(i), block: uint32(i), end: uint32(i)}
		}
		pr.end = uint32(i + 1)
		if it.rule.flags&ruleAllow != 0 {
			pr.block = uint32(i + 1)
		}
		s.paths[n.first] = pr
	}
	s.names.Freeze()
	s.texts.Freeze()
	s.prefixTexts.Freeze()
	for _, m := range []struct {
		names []string
		flag  uint8
	}{{host.LocalNames(), nodeLoopback}, {host.MetadataNames(), nodeMetadata}} {
		for _, name := range m.names {
			if _, n := s.names.Find(name); n != nil {
				n.flags |= m.flag
			}
		}
	}
	return nil
}

func (b *builder) nodeOf(it item) *node {
	if it.isName {
		return b.set.names.At(it.node)
	}
	return &b.set.prefixNodes[it.node]
}

// compare orders items by node, then rules without a path, allow rules by path,
// block rules by path.
func (b *builder) compare(x, y item) int {
	if x.isName != y.isName {
		if x.isName {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(x.node, y.node); c != 0 {
		return c
	}
	if c := cmp.Compare(group(x.rule), group(y.rule)); c != 0 {
		return c
	}
	if x.rule.pathAt == 0 {
		return 0
	}
	return strings.Compare(b.set.folded(&x.rule), b.set.folded(&y.rule))
}

func group(r rule) int {
	switch {
	case r.pathAt == 0:
		return 0
	case r.flags&ruleAllow != 0:
		return 1
	}
	return 2
}

func (b *builder) text(it item) string {
	if it.rule.pathAt == 0 {
		return ""
	}
	return b.set.texts.Get(it.rule.text)
}

// path returns the path of a rule that has one.
func (s *ruleSet) path(r *rule) string { return s.texts.Get(r.text)[r.pathAt:] }

// folded returns the folded path of a rule that has one.
func (s *ruleSet) folded(r *rule) string {
	if r.flags&ruleFolds != 0 {
		return s.texts.Get(r.text + 1)
	}
	return s.path(r)
}

// ref is a rule at its node.
type ref struct {
	rule   *rule // nil: none
	node   uint32
	isName bool
}

// text names the entry of a rule.
func (s *ruleSet) text(r ref) string {
	switch {
	case r.rule == nil:
		return ""
	case r.rule.pathAt != 0:
		return s.texts.Get(r.rule.text)
	case !r.isName:
		return s.prefixTexts.Get(r.node)
	case r.rule.flags&(ruleExact|ruleBelow) == ruleBelow:
		return s.names.Pattern(r.node)
	}
	return s.names.Name(r.node)
}

// methodBit returns the bit of a request's method, 0 for one that no entry
// names. Methods compare without case, since servers differ there.
func (s *ruleSet) methodBit(method string) uint64 {
	if len(method) > 32 {
		return 0
	}
	n, ok := s.methods[method]
	if !ok {
		var buf [32]byte
		upper := buf[:0]
		for i := 0; i < len(method); i++ {
			c := method[i]
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			upper = append(upper, c)
		}
		if n, ok = s.methods[string(upper)]; !ok {
			return 0
		}
	}
	return 1 << n
}

// each calls fn for every rule until it returns false.
func (s *ruleSet) each(fn func(r ref) bool) {
	walk := func(n node, id uint32, isName bool) bool {
		end := n.first + uint32(n.roots)
		if n.flags&nodePaths != 0 {
			end = s.paths[n.first].end
		}
		for i := n.first; i < end; i++ {
			if !fn(ref{&s.rules[i], id, isName}) {
				return false
			}
		}
		return true
	}
	for id, n := range s.names.All() {
		if !walk(*n, id, true) {
			return
		}
	}
	for id, n := range s.prefixNodes {
		if !walk(n, uint32(id), false) {
			return
		}
	}
}

// prefixOf returns the range that a rule for addresses is about.
func (s *ruleSet) prefixOf(r ref) netip.Prefix {
	p, err := netip.ParsePrefix(s.prefixTexts.Get(r.node))
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
