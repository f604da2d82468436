package battery

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/probes"
)

// outsideSuffix is the attacker's domain. It lies below a reserved top-level
// name, so no policy for real hosts allows it by accident; if one does, the
// next is tried.
var outsideSuffixes = []string{"collector.wallproof-attacker.example", "collector.wallproof-attacker.test", "collector.wallproof-attacker.invalid"}

// roles are the parts that hosts of the policy under test play: which one is the
// allowed target, where secrets are injected, what is brokered, and where the
// attacker sits.
type roles struct {
	parts     parts.Parts
	allowed   *policy.Sample
	beside    *policy.Sample // allowed, and no secret is for its host
	write     bool           // the target takes a request with a body; sideWrite: the other does
	sideWrite bool
	injected  []parts.Injected // distinct hosts, at most two are used
	lease     *policy.Lease
	suffix    string
	hosts     map[string]string // for the witness: host → role
	blocked   probes.Blocked
	wildcard  string // a domain below which every name is allowed, "" if none
}

// assign gives the hosts of a policy their parts. The policy is read from its
// canonical form, as a verifier reads it.
func assign(canonical []byte) (*roles, error) {
	p, err := policy.ParseCanonical(canonical)
	if err != nil {
		return nil, err
	}
	e, err := policy.Compile(p)
	if err != nil {
		return nil, err
	}
	t := parts.Of(e, p)
	r := &roles{parts: t, hosts: map[string]string{}, allowed: t.Allowed, beside: t.Beside, write: t.Write, sideWrite: t.BesideWrite, wildcard: t.Wildcard,
		injected: t.Injected, lease: t.Lease,
		blocked: probes.Blocked{Host: t.Refused.Host, Path: t.Refused.Path, Method: t.Refused.Method, Scheme: t.Refused.Scheme, Port: int(t.Refused.Port)}}
	for _, name := range t.Names {
		r.hosts[name] = witness.HostAllowed
	}
	if t.Refused.Host != "" {
		r.blocked.Addr = hostPair(t.Refused.Host, 0)
	}
	for _, i := range t.Injected {
		r.hosts[i.Sample.Request.Host.String()] = witness.HostAllowed
	}
	r.broker(e)
	r.model(p)
	r.platform()
	if err := r.attacker(e); err != nil {
		return nil, err
	}
	return r, nil
}

// broker makes forges of the hosts of all leases.
func (r *roles) broker(e *policy.Evaluator) {
	for _, l := range e.Brokered() {
		r.hosts[l.Broker.Host] = witness.HostForge
		if u, err := url.Parse(l.Broker.API); err == nil && u.Hostname() != "" {
			r.hosts[u.Hostname()] = witness.HostForge
		}
	}
}

func (r *roles) model(p *policy.Policy) {
	if p.Model == nil {
		return
	}
	r.hosts[r.parts.Model] = witness.HostModel
	// In the control the fixed name is one like any other, and leads to the provider.
	r.hosts[policy.ModelHost] = witness.HostModel
}

// platform puts the platform's control API and build cache where the policy says
// that they are. A host that has another part keeps it.
func (r *roles) platform() {
	for _, name := range []string{r.parts.Platform.APIHost, r.parts.Platform.CacheHost} {
		if role, taken := r.hosts[name]; !taken || role == witness.HostAllowed {
			r.hosts[name] = witness.HostPlatform
		}
	}
}

// attacker finds a domain that the policy does not allow. Under a policy that
// opens the internet there is none, and the techniques that need one do not
// apply.
func (r *roles) attacker(e *policy.Evaluator) error {
	for _, suffix := range outsideSuffixes {
		h, err := host.Parse("x." + suffix)
		if err != nil {
			return fmt.Errorf("parse the attacker's domain: %w", err)
		}
		if _, denied := e.Denies(h); denied {
			r.suffix = suffix
			return nil
		}
	}
	r.suffix = outsideSuffixes[0]
	if !r.parts.Internet {
		return fmt.Errorf("the policy allows every name below %s; the battery needs one that it denies", strings.Join(outsideSuffixes, ", "))
	}
	return nil
}

// hostPair is the world's addresses of a name, with the port where there is one.
func hostPair(name string, port uint16) probes.Pair {
	if port == 0 {
		return probes.Pair{V4: addr.Host4(name).String(), V6: addr.Host6(name).String()}
	}
	return probes.Pair{V4: fmt.Sprintf("%s:%d", addr.Host4(name), port), V6: fmt.Sprintf("[%s]:%d", addr.Host6(name), port)}
}

// headerValue is the value of a header field that carries a secret, or what
// stands in its place.
func headerValue(s policy.Setting, value string) string {
	switch s.As {
	case policy.InjectBearer:
		return "Bearer " + value
	case policy.InjectBasic:
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(s.Username+":"+value))
	}
	return s.Prefix + value
}

// otherRepository names a repository at the same forge that no policy is about.
func otherRepository(repo string) string {
	owner, _, _ := strings.Cut(repo, "/")
	return owner + "/wallproof-other"
}
