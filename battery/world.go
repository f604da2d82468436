package battery

import (
	"encoding/hex"
	"time"

	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/paths"
)

// worldConfig is what the witness of a phase is told. It is the same in both
// phases but for nonces and canaries.
func (p *phase) worldConfig() witness.Config {
	r := p.r.roles
	cfg := witness.Config{
		Role: witness.RoleWorld, Run: p.r.id, Phase: p.name, NonceKey: hex.EncodeToString(p.r.nonceKey),
		Hosts: r.hosts, CA: p.worldCA, Metadata: witness.Metadata{Canary: p.canaries.metadata},
		AddrNonces: map[string]string{}, PlatformTokens: []string{p.canaries.platform},
	}
	shared := map[string]bool{}
	for _, n := range p.nonces() {
		cfg.Nonces = append(cfg.Nonces, n)
		for _, a := range probes.OwnAddrs(n, p.outside()) {
			key := a.String()
			if _, taken := cfg.AddrNonces[key]; taken {
				shared[key] = true // two attempts share it, so it says nothing
			}
			cfg.AddrNonces[key] = n
		}
	}
	for key := range shared {
		delete(cfg.AddrNonces, key)
	}
	cfg.Resolve = map[string][]string{"*." + r.names().Mixed: {"99.64.1.1", "169.254.169.254", "2a0d:5600::1", "fd00:ec2::254"}}
	if l := r.lease; l != nil {
		cfg.Forge = p.forge(l)
	}
	return cfg
}

// nonces lists every nonce of the phase, heartbeats included.
func (p *phase) nonces() []string {
	var out []string
	for _, item := range plan(p.r.techniques, nil) {
		out = append(out, p.r.nonceOf(item, p.name))
	}
	for _, box := range []string{boxWork, boxAgent, boxImage} {
		for _, position := range []string{judge.Before, judge.Between, judge.After} {
			out = append(out, judge.HeartbeatNonce(p.r.nonceKey, p.r.id, box, position, p.name))
		}
	}
	if p.r.opt.Model != nil {
		out = append(out, p.twinNonce())
	}
	return out
}

func (p *phase) outside() *probes.Facts {
	return &probes.Facts{Outside: probes.Outside{Suffix: p.r.roles.suffix, V4: probes.DefaultOutside4, V6: probes.DefaultOutside6}}
}

// forge is the git forge behind the policy's broker: the brokered repository,
// one beside it that the same installation covers, and the app that may ask for
// tokens.
func (p *phase) forge(l *policy.Lease) witness.Forge {
	public, err := p.canaries.publicPEM()
	if err != nil {
		return witness.Forge{}
	}
	repo := l.Repository.Name
	other := otherRepository(repo)
	f := witness.Forge{
		Repos: []witness.Repo{
			{Name: repo, Private: true, Files: map[string]string{"README.md": "# Demo\n"}, Message: "first"},
			{Name: other, Private: true, Files: map[string]string{"README.md": "# Other\n"}, Message: "first"},
		},
		Apps:       []witness.App{{ID: l.Broker.App, Installation: l.Broker.Installation, PublicKeyPEM: public, Repos: []string{repo, other}}},
		FullTokens: []string{p.canaries.git}, ReadSeconds: int64(paths.ReadLease / time.Second),
	}
	for _, ref := range l.Repository.Push {
		f.Push = append(f.Push, witness.PushRule{Repo: repo, Refs: ref})
	}
	return f
}

// openConfig is what the control's open proxy is told: what a platform without
// a boundary does with the same secrets.
func (p *phase) openConfig() witness.Config {
	open := witness.OpenProxy{Resolver: worldResolver, Replace: map[string]string{}}
	for _, i := range p.r.roles.injected {
		s := p.canaries.own.find(i.Setting.Secret)
		if i.Setting.Header != "" {
			open.Inject = append(open.Inject, witness.Injection{Host: i.Sample.Request.Host.String(), Header: i.Setting.Header, Value: headerValue(i.Setting, s.Value)})
		}
	}
	for _, s := range append(append(tenantSecrets{}, p.canaries.own...), p.canaries.tenant...) {
		open.Replace[s.Placeholder] = s.Value
	}
	open.Replace[p.canaries.gitMark] = p.canaries.git
	return witness.Config{Role: witness.RoleOpenProxy, Run: p.r.id, Phase: p.name, NonceKey: hex.EncodeToString(p.r.nonceKey),
		Nonces: p.nonces(), CA: p.worldCA, Open: open}
}

// names are domains whose names resolve to where no policy lets anybody go. They
// lie below a domain that the policy allows where it allows one, so that only
// the address can be the reason to refuse.
func (r *roles) names() probes.Names {
	base := r.wildcard
	if base == "" {
		base = r.suffix
	}
	return probes.Names{
		Metadata: "to-169-254-169-254.to6-fd00-ec2--254." + base,
		Private:  "to-10-20-30-40.to6-fd12-3456-789a--40." + base,
		Loopback: "to-127-0-0-1.to6---1." + base,
		Rebind:   "first-self.first6-self.to-169-254-169-254.to6-fd00-ec2--254." + base,
		Mixed:    "mixed." + base,
	}
}
