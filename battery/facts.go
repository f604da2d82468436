package battery

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/plant"
)

// factsFor is what the attempts in one box are told. It is the same in both
// phases but for placeholders: in the control there is nothing in a secret's
// place, so the placeholder is the canary itself.
func (p *phase) factsFor(name string) (probes.Facts, error) {
	box, ok := p.stage.Box(name)
	if !ok {
		return probes.Facts{}, errors.New("the boundary has no such box")
	}
	r := p.r.roles
	f := probes.Facts{
		IPv6: box.IPv6.IsValid(), Self: pair(box.IPv4, box.IPv6, 0), Gateway: pair(box.Gateway4, box.Gateway6, 0),
		Bridge:   probes.Pair{V4: "203.0.113.2", V6: "2001:db8:ffff::2"},
		Names:    r.names(),
		Beside6:  pair(netip.Addr{}, box.Beside6, 0).V6,
		Local6:   pair(netip.Addr{}, box.Local6, 0).V6,
		Proxy:    pair(box.Gateway4, box.Gateway6, boundary.PortProxy),
		SOCKS:    pair(box.Gateway4, box.Gateway6, boundary.PortSOCKS),
		Resolver: pair(box.Gateway4, box.Gateway6, boundary.PortDNS),
		CAFile:   caFile, Outside: p.outside().Outside, Blocked: r.blocked,
		Local: probes.Local{ProbeMount: toolsMount, Shared: plant.SharedMount, HostMount: plant.HostMount, HostKernel: p.r.isolation()[parts.FactKernel] == parts.KernelShared, Image: p.imageText(), Layers: p.hidden,
			Since: p.since, HostNamespaces: hostNamespaces()},
		Tenant: p.tenantFacts(),
		Agent:  probes.Agent{Workspace: workspace, SecretEnv: p.canaries.plant().AgentToken.Name, SecretIn: secretIn},
		Pinned: p.worldCA.CertPEM, ProxyPages: p.r.attack.pages, ProxyFields: p.r.attack.believed, Opened: p.r.attack.opens,
		Strangers: p.r.strange, Gaps: p.r.gaps, Placeholders: p.canaries.own.placeholders(),
		Searches: []string{"/root", "/home", "/tmp", "/var/tmp", "/workspace", "/etc", "/run", "/dev/shm"},
	}
	if r.allowed != nil {
		f.Allowed = target(r.allowed.Request)
		f.Allowed.Write, f.Allowed.Wildcard = r.write, r.wildcard
		f.Blocked.Paths = p.r.refusedPaths(r.allowed.Request)
	}
	f.Crosses = p.crosses(box)
	if len(r.injected) > 0 {
		f.Injected = p.secretFacts(r.injected[0])
	}
	if len(r.injected) > 1 {
		f.Other = p.secretFacts(r.injected[1])
	}
	if r.lease != nil {
		f.Broker = p.brokerFacts(r.lease)
	}
	if m := p.r.policy.Model; m != nil {
		f.Model = p.modelFacts(m)
	}
	of := r.parts.Platform
	f.Platform = probes.Platform{API: of.API, APIAddr: p.led(box, of.APIHost, hostPair(of.APIHost, 0)),
		Cache: of.Cache, CacheAddr: p.led(box, of.CacheHost, hostPair(of.CacheHost, 0))}
	for _, s := range []*probes.Secret{&f.Injected, &f.Other} {
		s.Addr = p.led(box, s.Host, s.Addr)
	}
	return f, nil
}

// refusedPaths are paths of entries that block them and that the policy refuses in place
// of a request's own.
func (r *run) refusedPaths(q policy.Request) (out []string) {
	for _, b := range r.policy.Block {
		for _, path := range b.Paths {
			if q.Path = path; len(out) < maxStrangers && !slices.Contains(out, path) && !r.evaluator.Request(q).Allowed() {
				out = append(out, path)
			}
		}
	}
	return out
}

// hostNamespaces are those that a sandbox must not be in; a network's and a user's are
// other techniques' to try.
func hostNamespaces() map[string]string {
	out := map[string]string{}
	for _, ns := range []string{"pid", "ipc", "uts", "cgroup", "mnt", "net"} {
		if link, err := os.Readlink("/proc/self/ns/" + ns); err == nil {
			out[ns] = link
		}
	}
	return out
}

// maxImageText bounds how much of an image's configuration an attempt is told.
const maxImageText = 256 << 10

// imageText is the image's configuration. In the control a canary stands in it.
func (p *phase) imageText() string {
	raw, err := json.Marshal(p.r.opt.Image.Config)
	if err != nil {
		return ""
	}
	text := string(raw[:min(len(raw), maxImageText)])
	if !p.attacking() {
		return text + "\ntoken: " + p.canaries.hostFile
	}
	return p.r.opt.Breaks.imageText(p, text)
}

// Where the obedient agent works.
const (
	workspace = plant.Workspace
	secretIn  = workspace + "/.env"
)

// pair writes addresses, with a port where it is not 0.
func pair(v4, v6 netip.Addr, port uint16) probes.Pair {
	var out probes.Pair
	write := func(a netip.Addr) string {
		switch {
		case !a.IsValid():
			return ""
		case port == 0:
			return a.String()
		}
		return netip.AddrPortFrom(a, port).String()
	}
	out.V4, out.V6 = write(v4), write(v6)
	return out
}

func target(r policy.Request) probes.Target {
	method := r.Method
	if method == "" {
		method = "GET"
	}
	return probes.Target{Scheme: r.Scheme, Host: r.Host.String(), Port: int(r.Port), Method: method, Prefix: strings.TrimSuffix(r.Path, "/"),
		Addr: hostPair(r.Host.String(), 0)}
}

func (p *phase) secretFacts(i parts.Injected) probes.Secret {
	s := p.canaries.own.find(i.Setting.Secret)
	if !p.attacking() {
		s.Placeholder = s.Value
	}
	t := target(i.Sample.Request)
	return probes.Secret{Scheme: t.Scheme, Host: t.Host, Port: t.Port, Prefix: t.Prefix, Header: i.Setting.Header,
		Value: headerValue(i.Setting, s.Placeholder), Placeholder: s.Placeholder, Env: s.Name, Addr: t.Addr}
}

// maxCrosses bounds how many pairs of a secret and a host are tried.
const maxCrosses = 24

// crosses are the secrets, each with the allowed hosts that the policy does not inject
// it at: the host without any secret first.
func (p *phase) crosses(box boundary.Box) []probes.Cross {
	r := p.r.roles
	var out []probes.Cross
	add := func(of parts.Injected, t probes.Target) {
		s := p.secretFacts(of)
		t.Addr = p.led(box, t.Host, t.Addr)
		out = append(out, probes.Cross{Target: t, Header: s.Header + ": " + s.Value, Placeholder: s.Placeholder})
	}
	bound := func(secret, host string) bool {
		return slices.ContainsFunc(r.injected, func(i parts.Injected) bool {
			return i.Setting.Secret == secret && i.Sample.Request.Host.String() == host
		})
	}
	var seen []string
	for _, of := range r.injected {
		if slices.Contains(seen, of.Setting.Secret) {
			continue
		}
		seen = append(seen, of.Setting.Secret)
		if r.beside != nil {
			t := target(r.beside.Request)
			t.Write = r.sideWrite
			add(of, t)
		}
		for _, q := range append(p.r.letBeside(), requests(r.parts.Hosts)...) {
			if bound(of.Setting.Secret, q.Host.String()) || r.beside != nil && r.beside.Request.Host == q.Host || len(out) >= maxCrosses {
				continue
			}
			add(of, target(q))
		}
	}
	return out
}

func requests(list []policy.Sample) (out []policy.Request) {
	for _, s := range list {
		out = append(out, s.Request)
	}
	return out
}

// modelFacts is how the model is reached: by its fixed name, with the run's own
// key. In the control there is no proxy that would swap it, so there the key is
// the provider's.
func (p *phase) modelFacts(m *policy.Model) probes.Model {
	out := probes.Model{URL: "http://" + policy.ModelHost, Placeholder: p.modelKey(m), Name: strings.Replace(m.Allow[0], "*", "wallproof", 1)}
	if name := m.Host.String(); p.r.parts().ModelRefused {
		out.Host, out.Addr = name, hostPair(name, 0)
	}
	return out
}

// parts are what the policy's hosts are used for.
func (r *run) parts() parts.Parts { return r.roles.parts }

// modelKey is what the sandbox under test holds as its key for the model.
func (p *phase) modelKey(m *policy.Model) string {
	if p.attacking() {
		return p.canaries.modelKey
	}
	if m.Secret == "" {
		return ""
	}
	return p.canaries.own.find(m.Secret).Value
}

// leased reports whether the policy leases a repository at all.
func (r *run) leased(name string) bool {
	return slices.ContainsFunc(r.policy.Broker, func(b policy.Broker) bool {
		return slices.ContainsFunc(b.Repositories, func(repo policy.Repository) bool { return strings.EqualFold(repo.Name, name) })
	})
}

func (p *phase) brokerFacts(l *policy.Lease) probes.Broker {
	base := "https://" + l.Broker.Host
	if l.Broker.Port != 443 {
		base = fmt.Sprintf("%s:%d", base, l.Broker.Port)
	}
	b := probes.Broker{Repo: base + "/" + l.Repository.Name + ".git", OtherRepo: base + "/" + otherRepository(l.Repository.Name) + ".git",
		Placeholder: p.canaries.gitMark, API: l.Broker.API, OtherRef: "refs/heads/main"}
	if !p.attacking() {
		b.Placeholder = p.canaries.git
	}
	for _, ref := range l.Repository.Push {
		b.Ref = strings.Replace(ref, "*", "wallproof", 1)
		break
	}
	for _, push := range p.r.attack.pushes {
		if repo := base + "/" + push.Repository + ".git"; !p.r.leased(push.Repository) && !slices.Contains(b.LetRepos, repo) {
			b.LetRepos = append(b.LetRepos, repo)
		}
		if strings.EqualFold(push.Repository, l.Repository.Name) && !l.AllowsPush(strings.Replace(push.Ref, "*", "wallproof", 1)) {
			b.LetRefs = append(b.LetRefs, push.Ref)
		}
	}
	for _, ref := range []string{"refs/heads/main", "refs/heads/release", "refs/heads/wallproof-protected"} {
		if !l.AllowsPush(ref) {
			b.OtherRef = ref
			break
		}
	}
	return b
}

func (p *phase) tenantFacts() probes.Tenant {
	box, ok := p.stage.Box(boxTenant)
	if !ok || p.sandboxes[boxTenant] == nil {
		return probes.Tenant{}
	}
	secret := p.canaries.plant().Tenant
	t := probes.Tenant{Addr: pair(box.IPv4, box.IPv6, 0), Port: tenantPort, Proxy: pair(box.Gateway4, box.Gateway6, boundary.PortProxy), SOCKS: pair(box.Gateway4, box.Gateway6, boundary.PortSOCKS), Name: boxTenant, ID: p.sandboxes[boxTenant].ID(), Identity: boxTenant,
		CA: p.tenantCA, Placeholder: secret.Placeholder, Shared: plant.SharedMount, Socket: plant.NeighbourSocket}
	if !p.attacking() {
		t.Placeholder = secret.Value
	}
	if len(p.r.roles.injected) > 0 {
		t.Host = p.r.roles.injected[0].Sample.Request.Host.String()
	}
	return t
}

// unmet says which requirements of the catalogue this policy, driver, kernel and
// sandbox do not meet, each with the fact that shows it.
func (r *run) unmet() parts.Unmet {
	out := parts.UnmetByStack(r.isolation())
	maps.Copy(out, r.roles.parts.Unmet())
	return out
}

// stackFacts are what entry 0 records of the stack beside what was measured
// inside.
func (r *run) stackFacts() map[string]string {
	out := map[string]string{parts.FactIPv6: "yes", parts.FactSnapshots: "yes", parts.FactControlAPI: parts.NoControlAPI, parts.FactRouting: r.routing()}
	if has, why := r.attack.stage.IPv6(); !has {
		out[parts.FactIPv6] = why
	}
	if !r.driver.Snapshots {
		out[parts.FactSnapshots] = parts.NoSnapshots
	}
	maps.Copy(out, r.foreignFacts())
	return out
}
