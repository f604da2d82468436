package review

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
)

// A cell is a set of hosts between which neither of two policies makes a
// difference, with one host that stands for all of them. What Diff says of a cell
// is what the evaluators say of that host.
type cell struct {
	subject string    // how people call the cell
	host    host.Host // stands for it
	answers bool      // the cell is about addresses that names resolve to
	addr    netip.Addr
	ports   []uint16 // one for each range of ports between which no entry makes a difference
	methods []string
	paths   []string
}

// anyLabel is put in front of a name to stand for the hosts below it that no
// entry names.
const anyLabel = "wallproof-any-host"

// otherMethod stands for the methods that no entry names.
const otherMethod = "OTHER"

// conditions are what entries and rules that bear on a cell distinguish.
type conditions struct {
	ports   []policy.PortRange
	methods []string
	paths   []string
}

// space divides all hosts by the entries and rules of two policies.
type space struct {
	names  map[string]*conditions // by name, whatever the match
	below  map[string]bool        // names with entries for what lies below
	ranges map[netip.Prefix]*conditions
}

func newSpace() *space {
	return &space{names: map[string]*conditions{}, below: map[string]bool{}, ranges: map[netip.Prefix]*conditions{}}
}

func (s *space) add(p *policy.Policy, phase policy.Phase) {
	pp := p.Phase(phase)
	for _, entries := range [][]policy.Entry{pp.Allowed(), pp.Block} {
		for i := range entries {
			e := &entries[i]
			s.note(e.Match, e.Host, e.Prefix, e.Ports, e.Methods, e.Paths)
		}
	}
	if phase != policy.PhaseAgent {
		return
	}
	for i := range p.Secrets {
		for _, r := range p.Secrets[i].Inject {
			if a, err := netip.ParseAddr(r.Host); err == nil {
				s.note(policy.MatchCIDR, "", netip.PrefixFrom(a, a.BitLen()), r.Ports, nil, []string{r.Path})
				continue
			}
			s.note(r.Match, r.Host, netip.Prefix{}, r.Ports, nil, []string{r.Path})
		}
	}
	for _, svc := range p.Services {
		var ports []policy.PortRange
		for _, port := range svc.Ports {
			ports = append(ports, policy.PortRange{From: port, To: port})
		}
		s.note(policy.MatchExact, svc.Name, netip.Prefix{}, ports, nil, nil)
	}
}

func (s *space) note(m policy.Match, name string, prefix netip.Prefix, ports []policy.PortRange, methods, paths []string) {
	var c *conditions
	if m == policy.MatchCIDR {
		if c = s.ranges[prefix]; c == nil {
			c = &conditions{}
			s.ranges[prefix] = c
		}
	} else {
		if c = s.names[name]; c == nil {
			c = &conditions{}
			s.names[name] = c
		}
		if m != policy.MatchExact {
			s.below[name] = true
		}
	}
	c.ports = append(c.ports, ports...)
	c.methods = append(c.methods, methods...)
	c.paths = append(c.paths, paths...)
}

// cells returns the division, sorted by name and address.
func (s *space) cells() []cell {
	names := make([]string, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []cell
	for _, name := range names {
		c := s.gather(name)
		if h, err := host.Parse(name); err == nil {
			out = append(out, c.cell("", name, h))
		}
		if !s.below[name] {
			continue
		}
		if h, err := host.Parse(anyLabel + "." + name); err == nil {
			out = append(out, c.cell("", "*."+name, h))
		}
	}
	unnamed, err := host.Parse(anyLabel + ".invalid")
	for i := 0; err == nil && s.named(unnamed.Name()); i++ {
		unnamed, err = host.Parse(anyLabel + "." + strings.Repeat("x", i%60+1) + ".invalid")
	}
	if err == nil {
		out = append(out, (&conditions{}).cell("", "hosts that no entry names", unnamed))
	}
	return append(out, s.addressCells(unnamed)...)
}

// named reports whether an entry is for a name or a parent of it.
func (s *space) named(name string) bool {
	for {
		if s.names[name] != nil {
			return true
		}
		i := strings.IndexByte(name, '.')
		if i < 0 {
			return false
		}
		name = name[i+1:]
	}
}

// gather collects the conditions that bear on a name and on what is below it.
func (s *space) gather(name string) *conditions {
	var c conditions
	for {
		if at := s.names[name]; at != nil {
			c.merge(at)
		}
		i := strings.IndexByte(name, '.')
		if i < 0 {
			return &c
		}
		name = name[i+1:]
	}
}

func (c *conditions) merge(o *conditions) {
	c.ports = append(c.ports, o.ports...)
	c.methods = append(c.methods, o.methods...)
	c.paths = append(c.paths, o.paths...)
}

func (c *conditions) cell(prefix, subject string, h host.Host) cell {
	out := cell{subject: prefix + subject, host: h, ports: representatives(c.ports), methods: append([]string{"GET", otherMethod}, c.methods...), paths: append([]string{"/"}, c.paths...)}
	slices.Sort(out.methods)
	out.methods = slices.Compact(out.methods)
	slices.Sort(out.paths)
	out.paths = slices.Compact(out.paths)
	return out
}

// representatives returns the first port of each stretch between borders.
func representatives(ranges []policy.PortRange) []uint16 {
	out := []uint16{1, 80, 81, 443, 444}
	for _, r := range ranges {
		out = append(out, r.From)
		if r.To < 65535 {
			out = append(out, r.To+1)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// addressCells divides the addresses: by the ranges of entries and by the
// special ranges. Each gives two cells, as literals and as answers to names.
func (s *space) addressCells(unnamed host.Host) []cell {
	all := map[netip.Prefix]*conditions{}
	for p, c := range s.ranges {
		all[p] = c
	}
	for _, r := range host.SpecialRanges() {
		if all[r.Prefix] == nil {
			all[r.Prefix] = &conditions{}
		}
	}
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, p := range everything {
		if all[p] == nil {
			all[p] = &conditions{}
		}
	}
	prefixes := make([]netip.Prefix, 0, len(all))
	for p := range all {
		prefixes = append(prefixes, p)
	}
	// Parents come before what they contain.
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []cell
	var parents []netip.Prefix
	for i, p := range prefixes {
		for len(parents) > 0 && !parents[len(parents)-1].Contains(p.Addr()) {
			parents = parents[:len(parents)-1]
		}
		parents = append(parents, p)
		a, ok := ownAddress(p, prefixes[i+1:])
		if !ok {
			continue // wholly divided up among smaller ranges
		}
		var c conditions
		for _, parent := range parents {
			c.merge(all[parent])
		}
		subject := p.String()
		if slices.Contains(everything, p) {
			subject = map[bool]string{true: "public IPv4 addresses that no entry names", false: "public IPv6 addresses that no entry names"}[p.Addr().Is4()]
		}
		literal := c.cell("", subject, host.FromAddr(a))
		out = append(out, literal)
		answer := c.cell("names that resolve into ", subject, unnamed)
		answer.answers, answer.addr = true, a
		out = append(out, answer)
	}
	return out
}

// ownAddress returns an address of p that lies in none of the smaller ranges
// that follow p in the order of prefixes.
func ownAddress(p netip.Prefix, following []netip.Prefix) (netip.Addr, bool) {
	a := p.Addr()
	for _, q := range following {
		if !p.Contains(q.Addr()) {
			break
		}
		if !q.Contains(a) {
			if a.Less(q.Addr()) {
				return a, true
			}
			continue
		}
		a = lastAddr(q).Next()
		if !a.IsValid() || !p.Contains(a) {
			return netip.Addr{}, false
		}
	}
	return a, true
}

// lastAddr returns the last address of a range.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		for bit := range 8 {
			if i*8+bit >= p.Bits() {
				b[i] |= 0x80 >> bit
			}
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
