package review

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
)

// item is an entry with one path, and where it stands.
type item struct {
	*policy.Entry
	allow bool
	path  string // "/" for every path
	order int
}

// table finds the entries that can bear on another.
type table struct {
	items  []item
	names  map[string][]int
	ranges map[netip.Prefix][]int
}

func newTable(pp policy.PhasePolicy) *table {
	t := &table{names: map[string][]int{}, ranges: map[netip.Prefix][]int{}}
	add := func(entries []policy.Entry, allow bool) {
		for i := range entries {
			e := &entries[i]
			paths := e.Paths
			if len(paths) == 0 {
				paths = []string{"/"}
			}
			for _, p := range paths {
				n := len(t.items)
				t.items = append(t.items, item{e, allow, p, n})
				if e.Match == policy.MatchCIDR {
					t.ranges[e.Prefix] = append(t.ranges[e.Prefix], n)
				} else {
					t.names[e.Host] = append(t.names[e.Host], n)
				}
			}
		}
	}
	add(pp.Allowed(), true)
	add(pp.Block, false)
	return t
}

// related calls fn for the entries of equal or lower specificity in host that
// share hosts with x, most specific first, until it returns false. x itself is
// among them.
func (t *table) related(x *item, fn func(level int, y *item) bool) {
	level := 0
	visit := func(list []int) bool {
		for _, i := range list {
			if !fn(level, &t.items[i]) {
				return false
			}
		}
		level++
		return true
	}
	if x.Match == policy.MatchCIDR {
		for bits := x.Prefix.Bits(); bits >= 0; bits-- {
			p, err := x.Prefix.Addr().Prefix(bits)
			if err != nil || !visit(t.ranges[p]) {
				return
			}
		}
		return
	}
	name := x.Host
	for {
		if !visit(t.names[name]) {
			return
		}
		i := strings.IndexByte(name, '.')
		if i < 0 {
			return
		}
		name = name[i+1:]
	}
}

// hostsMeet reports whether y, found at a level above or equal to x's, shares
// hosts with x, and whether it covers all of them.
func hostsMeet(x, y *item, level int) (meet, all bool) {
	switch {
	case x.Match == policy.MatchCIDR:
		// A wider range does not open the special one that x opens.
		return true, !x.allow || !y.allow || !opens(x) || opens(y)
	case level > 0:
		return y.Match != policy.MatchExact, y.Match != policy.MatchExact
	case y.Match == policy.MatchTree:
		return true, true
	case y.Match == x.Match:
		return true, true
	}
	return x.Match == policy.MatchTree, false
}

func portsMeet(x, y []policy.PortRange) (meet, all bool) {
	if y == nil {
		return true, true
	}
	if x == nil {
		return true, len(y) == 1 && y[0].From <= 1 && y[0].To == 65535
	}
	all = true
	for _, a := range x {
		inside := false
		for _, b := range y {
			meet = meet || a.From <= b.To && b.From <= a.To
			inside = inside || b.From <= a.From && a.To <= b.To
		}
		all = all && inside
	}
	return meet, all
}

func methodsMeet(x, y []string) (meet, all bool) {
	if y == nil {
		return true, true
	}
	if x == nil {
		return true, false
	}
	all = true
	for _, m := range x {
		if slices.Contains(y, m) {
			meet = true
		} else {
			all = false
		}
	}
	return meet, all
}

// pathsMeet compares paths as the evaluator does: those of block entries
// folded, those of allow entries exactly.
func pathsMeet(x, y *item) (meet, all bool) {
	a, b := x.path, y.path
	if !x.allow || !y.allow {
		a, b = string(host.FoldPath(nil, a)), string(host.FoldPath(nil, b))
	}
	if host.HasPrefix(a, b) {
		return true, true
	}
	return host.HasPrefix(b, a), false
}
