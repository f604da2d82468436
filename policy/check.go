package policy

import (
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/policy/pack"
)

// check refuses a policy whose parts do not go together. It looks at the
// document alone; what needs decisions is checked by Compile.
func (p *Policy) check() *Error {
	for _, step := range []func() *Error{
		p.checkPhases, p.checkFailure, p.checkSecrets, p.checkRules, p.checkBrokers, p.checkModel, p.checkServices, p.checkEnvironment,
	} {
		if err := step(); err != nil {
			err.File = p.Source
			return err
		}
	}
	return nil
}

func (p *Policy) checkPhases() *Error {
	total := 0
	for _, phase := range []Phase{PhaseSetup, PhaseAgent, PhaseVerifier} {
		pp := p.Phase(phase)
		total += len(pp.Allow) + len(pp.Block)
		if err := p.checkMode(phase, pp); err != nil {
			if phase != PhaseAgent {
				err.Field = "phases." + string(phase)
			}
			return err
		}
	}
	if total > MaxEntries {
		return &Error{Message: fmt.Sprintf("the document has %d entries; at most %d are allowed", total, MaxEntries)}
	}
	return nil
}

// checkMode refuses entries that a mode has no use for, and an empty allowlist.
func (p *Policy) checkMode(phase Phase, pp PhasePolicy) *Error {
	for _, ref := range pp.Packs {
		known, ok := pack.Lookup(ref.Name)
		if !ok {
			return ref.Pos.error(fmt.Sprintf("there is no pack %q", ref.Name))
		}
		if ref.Pin != nil && !known.Registry {
			return ref.Pos.error(fmt.Sprintf("the pack %q is a forge, not a registry, and cannot be pinned", ref.Name))
		}
	}
	entries := len(pp.Allow) + len(pp.Packs)
	switch pp.Mode {
	case ModePublic:
		if len(pp.Block) > 0 {
			return pp.Block[0].Pos.error("mode public blocks nothing; use mode denylist")
		}
	case ModeNoNetwork:
		if entries > 0 || len(pp.Block) > 0 {
			return firstPos(pp).error("mode no-network has no entries: nothing is reachable but the model and the run's services; use mode allowlist")
		}
	case ModeDenylist:
	case ModeAllowlist:
		if entries == 0 && (phase != PhaseAgent || p.Model == nil && len(p.Services) == 0) {
			return pp.Pos.error("mode allowlist with nothing allowed reaches nothing; add entries under allow, or use mode no-network")
		}
	default:
		return pp.Pos.error(fmt.Sprintf("there is no mode %q", pp.Mode))
	}
	return nil
}

func firstPos(pp PhasePolicy) Pos {
	switch {
	case len(pp.Allow) > 0:
		return pp.Allow[0].Pos
	case len(pp.Block) > 0:
		return pp.Block[0].Pos
	}
	return pp.Packs[0].Pos
}

func (p *Policy) checkFailure() *Error {
	if p.OnFailure == FailWarn && !p.Mode.DefaultAllows() {
		return &Error{Field: "on-failure", Message: fmt.Sprintf("warn is only for modes that allow what they do not name; mode %s fails closed", p.Mode)}
	}
	return nil
}

func (p *Policy) checkSecrets() *Error {
	seen := map[string]int{}
	for _, s := range p.Secrets {
		if line, ok := seen[s.Name]; ok {
			return s.Pos.error(fmt.Sprintf("the secret %q is defined twice; the first is in line %d", s.Name, line))
		}
		seen[s.Name] = s.Pos.Line
	}
	placeholders := map[string]string{}
	for _, s := range p.Secrets {
		if other, ok := placeholders[s.Placeholder]; ok && s.Placeholder != "" {
			return s.Pos.error(fmt.Sprintf("the secrets %q and %q have one placeholder, so a request with it could mean either", other, s.Name))
		}
		placeholders[s.Placeholder] = s.Name
		for _, r := range s.Inject {
			for _, set := range r.Set {
				if _, ok := seen[set.Secret]; !ok {
					return r.Pos.error(fmt.Sprintf("there is no secret %q", set.Secret))
				}
			}
		}
	}
	return nil
}

// checkRules refuses two injection rules of equal specificity for one request.
// Rules for one host are ordered by their paths, and a path is longer, shorter or
// the same; so two collide only when host, path and a port are the same.
func (p *Policy) checkRules() *Error {
	type place struct {
		match Match
		host  string
		path  string
	}
	seen := map[place][]*Rule{}
	for i := range p.Secrets {
		for j := range p.Secrets[i].Inject {
			r := &p.Secrets[i].Inject[j]
			at := place{r.Match, r.Host, r.Path}
			for _, other := range seen[at] {
				if overlapPorts(other.Ports, r.Ports) {
					return r.Pos.error(fmt.Sprintf("a second injection rule for %s; the first is in line %d. One rule may set several headers: list them under set", r, other.Pos.Line))
				}
			}
			seen[at] = append(seen[at], r)
		}
	}
	return nil
}

func (p *Policy) checkBrokers() *Error {
	names, repos := map[string]bool{}, map[string]int{}
	for i := range p.Broker {
		b := &p.Broker[i]
		if names[b.Name] {
			return b.Pos.error(fmt.Sprintf("the broker %q is defined twice; give each a name of its own", b.Name))
		}
		names[b.Name] = true
		for _, r := range b.Repositories {
			key := fmt.Sprintf("%s:%d/%s", b.Host, b.Port, r.Name)
			if line, ok := repos[key]; ok {
				return r.Pos.error(fmt.Sprintf("the repository %s is brokered twice; the first is in line %d", r.Name, line))
			}
			repos[key] = r.Pos.Line
		}
	}
	return nil
}

func (p *Policy) checkModel() *Error {
	m := p.Model
	if m == nil {
		return nil
	}
	if m.Secret != "" && !p.hasSecret(m.Secret) {
		return m.Pos.error(fmt.Sprintf("model.secret: there is no secret %q", m.Secret))
	}
	if m.HostedSearch == SearchAllow && !p.Mode.DefaultAllows() {
		return m.Pos.error("hosted-search: allow would let the provider search the web for an agent whose own access is restricted; name the models that may under self-search instead")
	}
	return nil
}

func (p *Policy) hasSecret(name string) bool {
	for _, s := range p.Secrets {
		if s.Name == name {
			return true
		}
	}
	return false
}

func (p *Policy) checkServices() *Error {
	seen := map[string]bool{}
	for _, s := range p.Services {
		if seen[s.Name] {
			return s.Pos.error(fmt.Sprintf("the service %q is defined twice", s.Name))
		}
		seen[s.Name] = true
	}
	for _, list := range [][]Entry{p.Allow, p.Block} {
		for i := range list {
			if e := &list[i]; e.Match != MatchCIDR && e.Match != MatchSubdomains && seen[e.Host] {
				return e.Pos.error(fmt.Sprintf("%s is the name of a service of this policy, which is reachable without an entry and cannot be a host too", e.Host))
			}
		}
	}
	return nil
}

// checkEnvironment refuses to let a secret's own variable into the sandbox.
func (p *Policy) checkEnvironment() *Error {
	for _, list := range [][]string{p.Environment.Pass, p.Environment.Ask} {
		for _, name := range list {
			for _, s := range p.Secrets {
				if s.From.Env == name {
					return s.Pos.error(fmt.Sprintf("the variable %s holds the secret %q and may not enter the sandbox; take it out of environment", name, s.Name))
				}
			}
		}
	}
	return nil
}

// LooksLikeKey reports whether a variable's name looks like that of a
// credential, for warnings.
func LooksLikeKey(name string) bool {
	name = strings.ToUpper(name)
	for _, part := range []string{"API_KEY", "APIKEY", "ACCESS_KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PRIVATE_KEY", "CREDENTIAL"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_PAT")
}

// searchRule returns what happens to hosted search when the policy does not say.
func (p *Policy) searchRule() string {
	switch {
	case p.Model == nil:
		return ""
	case p.Model.HostedSearch != "":
		return p.Model.HostedSearch
	case p.Mode.DefaultAllows():
		return SearchAllow
	}
	return SearchRefuse
}
