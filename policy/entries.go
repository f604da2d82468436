package policy

import (
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/pack"
)

// Phase returns the network policy of a phase.
func (p *Policy) Phase(phase Phase) PhasePolicy {
	switch phase {
	case PhaseSetup:
		return p.Setup
	case PhaseVerifier:
		return p.Verifier
	}
	return PhasePolicy{Mode: p.Mode, Packs: p.Packs, Allow: p.Allow, Block: p.Block}
}

// Allowed returns the allow entries with those of the packs behind them.
func (p PhasePolicy) Allowed() []Entry {
	if len(p.Packs) == 0 {
		return p.Allow
	}
	out := append([]Entry(nil), p.Allow...)
	for _, ref := range p.Packs {
		out = append(out, ref.Entries()...)
	}
	return out
}

// Entries returns what a pack stands for. Their position is that of the pack's
// name.
func (r PackRef) Entries() []Entry {
	p, _ := pack.Lookup(r.Name)
	var out []Entry
	for _, h := range p.Hosts {
		e := Entry{Match: MatchExact, Host: h.Name, Ports: httpsOnly, Methods: h.Methods, Pack: r.Name, Pos: r.Pos}
		if h.Ports != nil {
			e.Ports = nil
			for _, port := range h.Ports {
				e.Ports = append(e.Ports, PortRange{port, port})
			}
		}
		if r.Pin != nil {
			pin := *r.Pin
			if pin.Artefacts == nil {
				pin.Artefacts = h.Artefacts
			}
			e.Pin = &pin
		}
		out = append(out, e)
	}
	return out
}

// Subject returns what the entry is about, without ports, methods and paths:
// "github.com", "*.example.org" or "10.0.0.0/8".
func (e *Entry) Subject() string {
	switch e.Match {
	case MatchCIDR:
		return e.Prefix.String()
	case MatchSubdomains:
		return "*." + e.Host
	}
	return e.Host
}

// String returns the entry as messages and decisions name it: its subject and
// its path, "example.org/papers/x". An entry with several paths is named by the
// first.
func (e *Entry) String() string {
	if len(e.Paths) == 0 {
		return e.Subject()
	}
	s := e.Subject() + e.Paths[0]
	if len(e.Paths) > 1 {
		s += ", …"
	}
	return s
}

// String returns "443" or "8000-8100".
func (r PortRange) String() string {
	s := strconv.Itoa(int(r.From))
	if r.From != r.To {
		s += "-" + strconv.Itoa(int(r.To))
	}
	return s
}

// containsPort reports whether a set of ranges holds a port. nil is every port,
// and port 0 stands for any.
func containsPort(ranges []PortRange, port uint16) bool {
	if ranges == nil || port == 0 {
		return true
	}
	for _, r := range ranges {
		if r.Contains(port) {
			return true
		}
	}
	return false
}

func overlapPorts(a, b []PortRange) bool {
	if a == nil || b == nil {
		return true
	}
	for _, x := range a {
		for _, y := range b {
			if x.From <= y.To && y.From <= x.To {
				return true
			}
		}
	}
	return false
}

// hostPort joins a host and a port for display.
func hostPort(h host.Host, port uint16) string {
	return h.URLHost() + ":" + strconv.Itoa(int(port))
}

// String names a rule: "github.com", "*.example.org/v1".
func (r *Rule) String() string {
	s := r.Host
	if r.Match == MatchSubdomains {
		s = "*." + s
	}
	return s + strings.TrimSuffix(r.Path, "/")
}
