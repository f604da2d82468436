package witness

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/battery/witness/services"
)

// Labels by which a name says what it resolves to, for attempts on the order of
// check and dial. Dots and colons are written as dashes.
//
//	x.to-169-254-169-254.example    A 169.254.169.254
//	x.to6-fd00-ec2--254.example     AAAA fd00:ec2::254
//	x.first-23-1-2-3.to-10-0-0-1.e  A 23.1.2.3 when asked the first time, then A 10.0.0.1
//
// first6- does the same for AAAA. "first-self" stands for the name's own
// address, so that a name can look harmless once.
const (
	labelTo     = "to-"
	labelTo6    = "to6-"
	labelFirst  = "first-"
	labelFirst6 = "first6-"
	labelSelf   = "self"
)

// maxAsked bounds how many rebinding names are remembered.
const maxAsked = 4096

// internalNames are names that resolve inside a platform and nowhere else.
var internalNames = map[string]netip.Addr{
	"host.docker.internal":                 netip.MustParseAddr("192.168.65.254"),
	"gateway.docker.internal":              netip.MustParseAddr("192.168.65.254"),
	"host.containers.internal":             netip.MustParseAddr("10.88.0.1"),
	"host.lima.internal":                   netip.MustParseAddr("192.168.5.2"),
	"kubernetes":                           netip.MustParseAddr("10.96.0.1"),
	"kubernetes.default":                   netip.MustParseAddr("10.96.0.1"),
	"kubernetes.default.svc":               netip.MustParseAddr("10.96.0.1"),
	"kubernetes.default.svc.cluster.local": netip.MustParseAddr("10.96.0.1"),
}

// Every service of a cluster resolves to an address of its service range.
const clusterSuffix = ".svc.cluster.local"

var clusterService = netip.MustParseAddr("10.96.0.10")

// zone is what the world's DNS knows: everything.
type zone struct {
	override map[string][]netip.Addr
	wild     map[string][]netip.Addr // by suffix with its leading dot

	mu    sync.Mutex
	asked map[string]bool // rebinding names that have been answered once, with their type
}

func newZone(resolve map[string][]string) *zone {
	z := &zone{override: map[string][]netip.Addr{}, wild: map[string][]netip.Addr{}, asked: map[string]bool{}}
	for n, a := range services.MetadataNames() {
		z.override[n] = []netip.Addr{a}
	}
	for n, a := range internalNames {
		z.override[n] = []netip.Addr{a}
	}
	z.wild[clusterSuffix] = []netip.Addr{clusterService}
	for n, list := range resolve {
		var all []netip.Addr
		for _, s := range list {
			if a, err := netip.ParseAddr(s); err == nil { // Validate has looked at them
				all = append(all, a.Unmap())
			}
		}
		n = strings.ToLower(strings.TrimSuffix(n, "."))
		if suffix, ok := strings.CutPrefix(n, "*"); ok {
			z.wild[suffix] = all
		} else {
			z.override[n] = all
		}
	}
	return z
}

// addresses returns the addresses of a name, of one family, without counting as
// an answer.
func (z *zone) addresses(name string, v4 bool) []netip.Addr {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if all, ok := z.fixed(name); ok {
		var out []netip.Addr
		for _, a := range all {
			if a.Is4() == v4 {
				out = append(out, a)
			}
		}
		return out
	}
	if a, ok := labelled(name, v4, labelTo, labelTo6); ok {
		return []netip.Addr{a}
	}
	if _, other := labelled(name, !v4, labelTo, labelTo6); other {
		return nil // a name that asks for an address of one family has none of the other
	}
	return []netip.Addr{ownAddress(name, v4)}
}

// owns reports whether an address is one that the name resolves to, at first or
// later.
func (z *zone) owns(name string, a netip.Addr) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if slices.Contains(z.addresses(name, a.Is4()), a) {
		return true
	}
	first, ok := labelled(name, a.Is4(), labelFirst, labelFirst6)
	_, fixed := z.fixed(name)
	return ok && !fixed && first == a
}

// answer returns the addresses of a name for a query, which counts.
func (z *zone) answer(name string, v4 bool) []netip.Addr {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, ok := z.fixed(name); !ok {
		if a, ok := labelled(name, v4, labelFirst, labelFirst6); ok && z.firstTime(name, v4) {
			return []netip.Addr{a}
		}
	}
	return z.addresses(name, v4)
}

// fixed returns a name's configured addresses.
func (z *zone) fixed(name string) ([]netip.Addr, bool) {
	if all, ok := z.override[name]; ok {
		return all, true
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '.' {
			if all, ok := z.wild[name[i:]]; ok {
				return all, true
			}
		}
	}
	return nil, false
}

// firstTime reports whether a rebinding name is asked for the first time.
func (z *zone) firstTime(name string, v4 bool) bool {
	key := name
	if !v4 {
		key += "/6"
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.asked[key] {
		return false
	}
	if len(z.asked) >= maxAsked { // names come from outside: forget rather than grow
		clear(z.asked)
	}
	z.asked[key] = true
	return true
}

// labelled finds the address that a label of a name asks for.
func labelled(name string, v4 bool, four, six string) (netip.Addr, bool) {
	prefix, sep := four, "."
	if !v4 {
		prefix, sep = six, ":"
	}
	for l := range strings.SplitSeq(name, ".") {
		rest, ok := strings.CutPrefix(l, prefix)
		if !ok {
			continue
		}
		if rest == labelSelf {
			return ownAddress(name, v4), true
		}
		if a, err := netip.ParseAddr(strings.ReplaceAll(rest, "-", sep)); err == nil && a.Is4() == v4 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func ownAddress(name string, v4 bool) netip.Addr {
	if v4 {
		return addr.Host4(name)
	}
	return addr.Host6(name)
}
