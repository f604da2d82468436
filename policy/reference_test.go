package policy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
)

// reference decides as the documentation says, in the plainest way: every entry
// that matches, the most specific first, block before allow, else the mode.
func reference(p *Policy, r Request) Verdict {
	type match struct {
		host, path int
		block      bool
	}
	var all []match
	clean, err := host.CleanPath(r.Path)
	if err != nil {
		return Deny
	}
	folded := string(host.FoldPath(nil, clean))
	for _, list := range []struct {
		entries []Entry
		block   bool
	}{{p.Allow, false}, {p.Block, true}} {
		for i := range list.entries {
			e := &list.entries[i]
			level, ok := referenceHost(e, r.Host)
			if !ok || !containsPort(e.Ports, r.Port) || e.Methods != nil && !slices.Contains(e.Methods, strings.ToUpper(r.Method)) {
				continue
			}
			if e.Paths == nil {
				all = append(all, match{level, 0, list.block})
			}
			for _, path := range e.Paths {
				foldedPath := string(host.FoldPath(nil, path))
				if list.block && host.HasPrefix(folded, foldedPath) || !list.block && host.HasPrefix(clean, path) {
					all = append(all, match{level, len(foldedPath), list.block})
				}
			}
		}
	}
	if len(all) == 0 {
		if p.Mode.DefaultAllows() {
			return Allow
		}
		return Deny
	}
	best := all[0]
	for _, m := range all[1:] {
		if m.host > best.host || m.host == best.host && (m.path > best.path || m.path == best.path && m.block) {
			best = m
		}
	}
	if best.block {
		return Deny
	}
	return Allow
}

// referenceHost returns how specific an entry is for a host.
func referenceHost(e *Entry, h host.Host) (int, bool) {
	if e.Match == MatchCIDR || h.IsAddr() {
		return e.Prefix.Bits(), e.Match == MatchCIDR && h.IsAddr() && e.Prefix.Contains(h.Addr())
	}
	labels := strings.Count(e.Host, ".") + 1
	exact, below := h.Name() == e.Host, strings.HasSuffix(h.Name(), "."+e.Host)
	switch {
	case exact && e.Match != MatchSubdomains:
		return 1000, true
	case below && e.Match != MatchExact:
		return labels, true
	}
	return 0, false
}

// The evaluator and the reference agree on every request to many small random
// policies, and the first gate never denies what the second look would allow.
func TestAgreesWithReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 11))
	names := []string{"a.example", "b.a.example", "c.b.a.example", "example", "z.example"}
	prefixes := []string{"8.8.0.0/16", "8.8.8.0/24", "8.8.8.8/32", "8.0.0.0/6", "2606:4700::/32", "2606:4700:1::/48"}
	paths := []string{"/x", "/x/y", "/X", "/x/y/z", "/x;p/y", "/w"}
	ports := [][]PortRange{nil, {{443, 443}}, {{80, 80}, {443, 443}}, {{8000, 8010}}}
	methods := [][]string{nil, nil, {"GET"}, {"GET", "POST"}, {"POST"}}
	pick := func(n int) int { return rnd.IntN(n) }
	entry := func(allow bool) Entry {
		e := Entry{Ports: ports[pick(len(ports))], Methods: methods[pick(len(methods))]}
		if allow && e.Ports == nil {
			e.Ports = httpsOnly
		}
		for range pick(3) {
			e.Paths = append(e.Paths, paths[pick(len(paths))])
		}
		if pick(4) == 0 {
			e.Match, e.Prefix = MatchCIDR, netip.MustParsePrefix(prefixes[pick(len(prefixes))])
			return e
		}
		e.Host = names[pick(len(names))]
		e.Match = []Match{MatchExact, MatchSubdomains}[pick(2)]
		if !allow && pick(2) == 0 {
			e.Match = MatchTree
		}
		return e
	}
	var hosts []host.Host
	for _, s := range append(names, "q.c.b.a.example", "q.example", "other.org", "8.8.8.8", "8.8.8.9", "8.8.9.9", "9.9.9.9", "2606:4700:1::1", "2606:4700::1") {
		hosts = append(hosts, mustHost(t, s))
	}
	asks := []string{"/", "/x", "/x/", "/x/y", "/X/y", "/x/y/z/q", "/x;p/y", "/w/../x", "/xy", "/%78/y"}
	compared := 0
	for range 1500 {
		p := mustParse(t, "mode: denylist\n")
		if pick(2) == 0 {
			p.Mode = ModeAllowlist
			p.Allow = append(p.Allow, entry(true))
		}
		for range pick(5) {
			p.Allow = append(p.Allow, entry(true))
		}
		for range pick(5) {
			p.Block = append(p.Block, entry(false))
		}
		e, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			r := Request{Scheme: "https", Host: hosts[pick(len(hosts))], Port: []uint16{80, 443, 8005, 9000}[pick(4)], Method: []string{"GET", "POST", "PUT", "get"}[pick(4)], Path: asks[pick(len(asks))]}
			want := reference(p, r)
			// An address is held against the ranges that block it whatever it is asked.
			if got := e.Request(r); got.Verdict != want && !(r.Host.IsAddr() && got.Reason == ReasonBlockEntry) {
				t.Fatalf("%s %s:%d%s: %s (%s %s), the reference says %s\n%s", r.Method, r.Host, r.Port, r.Path, got.Verdict, got.Reason, got.Entry, want, p.Format())
			}
			if want == Allow && !e.Name(r.Host, r.Port).Allowed() && !r.Host.IsAddr() {
				t.Fatalf("%s:%d is denied before the lookup, %s %s is allowed\n%s", r.Host, r.Port, r.Method, r.Path, p.Format())
			}
			if d := e.Name(r.Host, 0); want == Allow && !d.Allowed() && !r.Host.IsAddr() {
				t.Fatalf("%s cannot be looked up, but may be reached at %d\n%s", r.Host, r.Port, p.Format())
			}
			compared++
		}
	}
	if compared < 50_000 {
		t.Errorf("only %d requests were compared", compared)
	}
}
