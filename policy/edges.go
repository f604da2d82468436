package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/pack"
)

// Posture is the decision that an edge of the reachability picture shows.
type Posture string

// The postures.
const (
	PostureAllowed  Posture = "Allowed"
	PostureBrokered Posture = "Brokered"
	PostureDenied   Posture = "Denied"
)

// The edges, in the order of the picture.
const (
	EdgeSource   = "source-repository"
	EdgeRegistry = "package-registry"
	EdgeToken    = "git-token"
	EdgeModel    = "model"
	EdgeNamed    = "named-hosts" // only where there are such
	EdgeMetadata = "cloud-metadata"
	EdgePrivate  = "private-ranges"
	EdgeInternet = "open-internet"
	EdgeTenants  = "other-tenants"
)

// Reasons of edges, a closed list.
const (
	EdgeBrokeredToken = "brokered-token" // reached with a lease that the sandbox never sees
	EdgeInjected      = "injected"       // reached with a secret that the sandbox never sees
	EdgePinned        = "pinned"         // reached for pinned artefacts only
	EdgeAllowEntry    = "allow-entry"    // an entry names it
	EdgeDefaultAllow  = "default-allow"  // the mode allows what it does not name
	EdgeOverBroad     = "over-broad"     // an entry covers most of it
	EdgeOpened        = "opened"         // an entry opens the range
	EdgeModelProxy    = "model-proxy"    // reached by the proxy, which holds the provider's key
	EdgeDefaultDeny   = "default-deny"   // no entry names it
	EdgeAlwaysDenied  = "always-denied"  // denied in every mode unless named
	EdgeNoToken       = "no-token"       // there is no git credential in the run
	EdgeNoModel       = "no-model"       // the policy names no model
	EdgeIsolated      = "isolated"       // no policy can connect sandboxes
)

// Edge is one edge of the reachability picture: one explicit decision.
type Edge struct {
	ID          string  `json:"id"`
	Label       string  `json:"label"` // "Source repository"
	Posture     Posture `json:"posture"`
	Reason      string  `json:"reason"`           // one of the Edge… reasons
	Description string  `json:"description"`      // one sentence
	Vector      string  `json:"vector,omitempty"` // the battery's vector that tests it
}

// Edges returns all edges of the picture, in order. Each comes from a decision
// of this evaluator.
func (e *Evaluator) Edges() []Edge {
	edges := []Edge{e.sourceEdge(), e.registryEdge(), e.tokenEdge(), e.modelEdge()}
	if named, ok := e.namedEdge(); ok {
		edges = append(edges, named)
	}
	return append(edges, e.metadataEdge(), e.privateEdge(), e.internetEdge(),
		Edge{EdgeTenants, "Other tenants", PostureDenied, EdgeIsolated,
			"Every sandbox has a network of its own; no entry can connect two.", "TEN"})
}

// namedEdge is the edge to what entries let through beside all that has an edge of
// its own; false where there is nothing of that kind. Without it the picture would say
// that less can be reached than can.
func (e *Evaluator) namedEdge() (Edge, bool) {
	if e.mode.DefaultAllows() { // the open internet is, and with it all of them
		return Edge{}, false
	}
	drawn := e.drawnHosts()
	seen := map[string]bool{}
	e.set.each(func(r ref) bool {
		if r.rule.flags&ruleAllow != 0 && !e.isDrawn(r, drawn) {
			seen[e.set.text(r)] = true
		}
		return len(seen) < maxShownHosts
	})
	if len(seen) == 0 {
		return Edge{}, false
	}
	return Edge{EdgeNamed, "Other named hosts", PostureAllowed, EdgeAllowEntry,
		fmt.Sprintf("%s, allowed by name.", listed(slices.Sorted(maps.Keys(seen)))), "NET"}, true
}

// drawnHosts are the names that the edges to repositories, registries and the model
// are about.
func (e *Evaluator) drawnHosts() map[string]bool {
	names := e.registryHosts()
	if len(e.brokers) == 0 {
		names = append(names, forges...)
	}
	for _, b := range e.policy.Broker {
		names = append(names, b.Host)
	}
	if e.policy.Model != nil {
		names = append(names, e.policy.Model.Host.String())
	}
	drawn := make(map[string]bool, len(names))
	for _, n := range names {
		drawn[n] = true
	}
	return drawn
}

// isDrawn tells whether another edge is about what a rule allows: that to a host of a
// kind, to metadata or private ranges that it opens, or to the internet that it covers
// much of.
func (e *Evaluator) isDrawn(r ref, drawn map[string]bool) bool {
	if !r.isName {
		p := e.set.prefixOf(r)
		return openedClass(p) != host.ClassPublic || e.isBroad(r)
	}
	name := e.set.names.Name(r.node)
	exact := r.rule.flags&ruleExact != 0
	return exact && (drawn[name] || host.NameClass(name) == host.ClassMetadata) || e.isBroad(r)
}

// forges are hosts that are known to hold source repositories.
var forges = []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "git.sr.ht", "dev.azure.com"}

// reachable returns the hosts of a list that are reachable at port 443 and
// named by an entry, each once, and whether any is reachable at all.
func (e *Evaluator) reachable(names []string) (named []string, any bool) {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		h, err := host.Parse(name)
		if err != nil {
			continue
		}
		d := e.Name(h, 443)
		any = any || d.Allowed()
		if d.Allowed() && d.Reason == ReasonAllowEntry {
			named = append(named, name)
		}
	}
	return named, any
}

func (e *Evaluator) sourceEdge() Edge {
	edge := Edge{ID: EdgeSource, Label: "Source repository", Vector: "TOK"}
	if len(e.brokers) > 0 {
		var repos []string
		for _, b := range e.policy.Broker {
			for _, r := range b.Repositories {
				repos = append(repos, b.Host+"/"+r.Name)
			}
		}
		edge.Posture, edge.Reason = PostureAllowed, EdgeBrokeredToken
		edge.Description = fmt.Sprintf("%s with a brokered, repository-scoped token.", listed(repos))
		return edge
	}
	return e.hostEdge(edge, forges, "source repository")
}

// hostEdge fills in an edge to a kind of host.
func (e *Evaluator) hostEdge(edge Edge, names []string, what string) Edge {
	named, any := e.reachable(names)
	switch {
	case len(named) > 0:
		edge.Posture, edge.Reason = PostureAllowed, EdgeAllowEntry
		edge.Description = fmt.Sprintf("%s, allowed by name.", listed(named))
	case any:
		edge.Posture, edge.Reason = PostureAllowed, EdgeDefaultAllow
		edge.Description = fmt.Sprintf("Any %s on the internet; mode %s allows what it does not name.", what, e.mode)
	default:
		edge.Posture, edge.Reason = PostureDenied, EdgeDefaultDeny
		edge.Description = fmt.Sprintf("No %s is named by the policy.", what)
	}
	return edge
}

// registryHosts returns the hosts of registry packs, and the hosts of entries
// that are pinned or have the name of a registry.
func (e *Evaluator) registryHosts() []string {
	var out []string
	for _, p := range pack.All() {
		if p.Registry {
			for _, h := range p.Hosts {
				out = append(out, h.Name)
			}
		}
	}
	e.set.each(func(r ref) bool {
		if r.isName && r.rule.flags&(ruleAllow|ruleExact) == ruleAllow|ruleExact {
			name := e.set.names.Name(r.node)
			if e.set.specs[r.rule.spec].pin != nil || looksLikeRegistry(name) {
				out = append(out, name)
			}
		}
		return len(out) < maxShownHosts
	})
	return out
}

const maxShownHosts = 1000

// looksLikeRegistry reports whether the first label of a name is what people
// call their package mirrors.
func looksLikeRegistry(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	for _, word := range []string{"registry", "packages", "npm", "pypi", "crates", "artifactory", "nexus", "goproxy"} {
		if strings.Contains(first, word) {
			return true
		}
	}
	return false
}

func (e *Evaluator) registryEdge() Edge {
	names := e.registryHosts()
	edge := e.hostEdge(Edge{ID: EdgeRegistry, Label: "Package registry", Vector: "NET"}, names, "package registry")
	if edge.Reason != EdgeAllowEntry {
		return edge
	}
	named, _ := e.reachable(names)
	for _, name := range named {
		h, err := host.Parse(name)
		if err != nil {
			return edge
		}
		if d := e.Request(Request{Scheme: "https", Host: h, Port: 443, Method: "GET", Path: "/"}); d.Allowed() && d.Pin == nil {
			return edge
		}
	}
	edge.Reason = EdgePinned
	edge.Description = fmt.Sprintf("%s, for pinned artefacts only.", listed(named))
	return edge
}

func (e *Evaluator) tokenEdge() Edge {
	edge := Edge{ID: EdgeToken, Label: "Git token", Vector: "TOK"}
	if len(e.brokers) > 0 {
		edge.Posture, edge.Reason = PostureBrokered, EdgeBrokeredToken
		edge.Description = "Minted for one repository and minutes; the proxy holds it, the sandbox never does."
		return edge
	}
	for _, name := range forges {
		h, err := host.Parse(name)
		if err != nil {
			continue
		}
		if rule := e.Injection(Request{Scheme: "https", Host: h, Port: 443, Path: "/"}); rule != nil && e.Name(h, 443).Allowed() {
			edge.Posture, edge.Reason = PostureBrokered, EdgeInjected
			edge.Description = fmt.Sprintf("Injected by the proxy on the way to %s; the sandbox never holds it.", name)
			return edge
		}
	}
	edge.Posture, edge.Reason = PostureDenied, EdgeNoToken
	edge.Description = "There is no git credential in the run."
	return edge
}

func (e *Evaluator) modelEdge() Edge {
	edge := Edge{ID: EdgeModel, Label: "Model", Vector: "TOK"}
	if e.policy.Model == nil || e.phase != PhaseAgent {
		edge.Posture, edge.Reason, edge.Description = PostureDenied, EdgeNoModel, "The policy names no model."
		return edge
	}
	edge.Posture, edge.Reason = PostureBrokered, EdgeModelProxy
	edge.Description = fmt.Sprintf("%s by the proxy, which holds the provider's key, for the models that the policy names.", e.policy.Model.Host)
	return edge
}

func (e *Evaluator) metadataEdge() Edge {
	edge := Edge{EdgeMetadata, "Cloud metadata", PostureDenied, EdgeAlwaysDenied,
		"The metadata services of every large cloud, by name and by address.", "IMD"}
	if e.OpensMetadata() {
		edge.Posture, edge.Reason = PostureAllowed, EdgeOpened
		edge.Description = "An entry names a metadata service."
	}
	return edge
}

func (e *Evaluator) privateEdge() Edge {
	edge := Edge{EdgePrivate, "Private ranges", PostureDenied, EdgeAlwaysDenied,
		"Loopback, link-local, private, carrier-grade and reserved ranges, in IPv4 and IPv6.", "LAT"}
	if opened := e.openedRanges(); len(opened) > 0 {
		edge.Posture, edge.Reason = PostureAllowed, EdgeOpened
		edge.Description = fmt.Sprintf("An entry opens %s.", listed(opened))
	}
	return edge
}

func (e *Evaluator) internetEdge() Edge {
	edge := Edge{ID: EdgeInternet, Label: "Open internet", Vector: "NET"}
	switch broad := e.overBroad(); {
	case e.mode.DefaultAllows():
		edge.Posture, edge.Reason = PostureAllowed, EdgeDefaultAllow
		edge.Description = fmt.Sprintf("Mode %s allows what it does not name.", e.mode)
	case broad != "":
		edge.Posture, edge.Reason = PostureAllowed, EdgeOverBroad
		edge.Description = fmt.Sprintf("The entry %s covers a large part of the internet.", broad)
	default:
		edge.Posture, edge.Reason = PostureDenied, EdgeDefaultDeny
		edge.Description = "Hosts that the policy does not name are refused before any lookup."
	}
	return edge
}

// OpensPrivate reports whether an entry opens any special range other than a
// metadata service.
func (e *Evaluator) OpensPrivate() bool { return len(e.openedRanges()) > 0 }

// OpensMetadata reports whether a metadata service may be reached, by address
// or by name.
func (e *Evaluator) OpensMetadata() bool {
	for _, r := range host.SpecialRanges() {
		if r.Class == host.ClassMetadata && e.layers(r.Prefix.Addr(), 0).Allowed() {
			return true
		}
	}
	open := false
	e.set.each(func(r ref) bool {
		if r.isName && r.rule.flags&(ruleAllow|ruleExact) == ruleAllow|ruleExact {
			name := e.set.names.Name(r.node)
			if host.NameClass(name) == host.ClassMetadata {
				h, err := host.Parse(name)
				open = err == nil && e.Name(h, 0).Allowed()
			}
		}
		return !open
	})
	return open
}

// OpensInternet reports whether hosts that no entry names are reachable, or an
// entry covers so much that it comes to the same.
func (e *Evaluator) OpensInternet() bool { return e.mode.DefaultAllows() || e.overBroad() != "" }

// openedRanges returns the ranges of allow entries that open a special range.
func (e *Evaluator) openedRanges() []string {
	var out []string
	e.set.each(func(r ref) bool {
		if r.isName || r.rule.flags&ruleAllow == 0 {
			return true
		}
		p := e.set.prefixOf(r)
		if class := openedClass(p); class != host.ClassPublic && class != host.ClassMetadata {
			out = append(out, p.String())
		}
		return len(out) < maxShownHosts
	})
	return out
}

// openedClass returns the class of the special range that contains all of a
// prefix, which an allow entry for it opens; ClassPublic if none does.
func openedClass(p netip.Prefix) host.Class {
	c := host.Classify(p.Addr())
	if l := c.Layer(0); l.Class != host.ClassPublic && l.Range.Bits() <= p.Bits() {
		return l.Class
	}
	return host.ClassPublic
}

// Widths from which on a range of addresses is most of the internet.
const (
	broadBits4 = 4
	broadBits6 = 12
)

// overBroad returns an allow entry that covers a large part of the internet: a
// whole top-level domain, or a range of such a width.
func (e *Evaluator) overBroad() string {
	found := ""
	e.set.each(func(r ref) bool {
		if r.rule.flags&ruleAllow != 0 && e.isBroad(r) {
			found = e.set.text(r)
		}
		return found == ""
	})
	return found
}

// isBroad tells whether a rule covers a large part of the internet.
func (e *Evaluator) isBroad(r ref) bool {
	if r.isName {
		return r.rule.flags&ruleBelow != 0 && !strings.Contains(e.set.names.Name(r.node), ".")
	}
	p := e.set.prefixOf(r)
	return openedClass(p) == host.ClassPublic && p.Bits() <= map[bool]int{true: broadBits4, false: broadBits6}[p.Addr().Is4()]
}

// listed joins names for a sentence, at most three of them.
func listed(names []string) string {
	const most = 3
	switch {
	case len(names) <= 1:
		return strings.Join(names, "")
	case len(names) <= most:
		return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
