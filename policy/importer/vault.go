package importer

import (
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// vault is a vault document.
type vault struct {
	name      string
	allows    bool // hosts that it does not name
	onFailure string
	failureAt policy.Pos
	secrets   []vaultSecret
	rules     []vaultRule
	allow     []located[hostPattern]
	block     []located[hostPattern]
}

type vaultSecret struct {
	name string
	from policy.Source
	at   policy.Pos
}

// vaultRule injects one secret; of the rules for a host the first wins.
type vaultRule struct {
	host     hostPattern
	secret   string
	header   string
	query    string
	as       string
	username string
	at       policy.Pos
}

var vaultFields = []field[vault]{
	must("vault", func(d *decoder, n *strict.Node, v *vault) (err *strict.Error) {
		v.name, err = d.Text(n)
		return err
	}),
	must("default", func(d *decoder, n *strict.Node, v *vault) *strict.Error {
		s, err := d.Choice(n, "allow", "block")
		v.allows = s == "allow"
		return err
	}),
	may("on_failure", func(d *decoder, n *strict.Node, v *vault) (err *strict.Error) {
		v.failureAt = pos(n)
		v.onFailure, err = d.Choice(n, "stop", "continue")
		return err
	}),
	may("secrets", func(d *decoder, n *strict.Node, v *vault) *strict.Error {
		return strict.DecodeList(d, n, maxList, &v.secrets, func(d *decoder, n *strict.Node, s *vaultSecret) *strict.Error {
			s.at = pos(n)
			_, err := strict.DecodeMap(d, n, s, vaultSecretFields)
			return err
		})
	}),
	may("rules", func(d *decoder, n *strict.Node, v *vault) *strict.Error {
		return strict.DecodeList(d, n, maxList, &v.rules, (*decoder).vaultRule)
	}),
	may("hosts", func(d *decoder, n *strict.Node, v *vault) *strict.Error {
		_, err := strict.DecodeMap(d, n, v, vaultHostFields)
		return err
	}),
}

var vaultSecretFields = []field[vaultSecret]{
	must("name", func(d *decoder, n *strict.Node, s *vaultSecret) (err *strict.Error) {
		s.name, err = d.Text(n)
		return err
	}),
	may("from", func(d *decoder, n *strict.Node, s *vaultSecret) *strict.Error {
		_, err := strict.DecodeMap(d, n, &s.from, sourceFields)
		if err == nil && len(n.Members) != 1 {
			err = d.Fail(n, "a source has exactly one of env, file, vault, gcp, aws and azure")
		}
		return err
	}),
	may("value", func(d *decoder, n *strict.Node, s *vaultSecret) *strict.Error {
		return d.Fail(n, "a policy holds no secret; put the value where from can name it (env, file, vault, gcp, aws or azure)")
	}),
}

var vaultHostFields = []field[vault]{
	may("allow", func(d *decoder, n *strict.Node, v *vault) *strict.Error { return patterns(d, n, &v.allow) }),
	may("block", func(d *decoder, n *strict.Node, v *vault) *strict.Error { return patterns(d, n, &v.block) }),
}

func patterns(d *decoder, n *strict.Node, out *[]located[hostPattern]) *strict.Error {
	return d.List(n, maxList, func(n *strict.Node) *strict.Error {
		p, err := anyHost(d, n)
		if err == nil && p.every {
			err = d.Fail(n, "* is what default is for")
		}
		*out = append(*out, located[hostPattern]{p, pos(n)})
		return err
	})
}

var vaultRuleFields = []field[vaultRule]{
	must("host", func(d *decoder, n *strict.Node, r *vaultRule) (err *strict.Error) {
		r.host, err = anyHost(d, n)
		return err
	}),
	must("secret", func(d *decoder, n *strict.Node, r *vaultRule) (err *strict.Error) {
		r.secret, err = d.Text(n)
		return err
	}),
	may("header", func(d *decoder, n *strict.Node, r *vaultRule) (err *strict.Error) {
		r.header, err = d.Text(n)
		return err
	}),
	may("query", func(d *decoder, n *strict.Node, r *vaultRule) (err *strict.Error) {
		r.query, err = d.Text(n)
		return err
	}),
	may("as", func(d *decoder, n *strict.Node, r *vaultRule) (err *strict.Error) {
		r.as, err = d.Choice(n, "bearer", "basic", "raw")
		return err
	}),
	may("username", func(d *decoder, n *strict.Node, r *vaultRule) (err *strict.Error) {
		r.username, err = d.Text(n)
		return err
	}),
}

func (d *decoder) vaultRule(n *strict.Node, r *vaultRule) *strict.Error {
	r.at = pos(n)
	if _, err := strict.DecodeMap(d, n, r, vaultRuleFields); err != nil {
		return err
	}
	authorization := strings.EqualFold(r.header, "Authorization")
	switch {
	case (r.header == "") == (r.query == ""):
		return d.Fail(n, "a rule has either header or query")
	case r.query != "" && r.as != "" && r.as != "raw":
		return d.Fail(n, "a query parameter takes the value as it is (as: raw)")
	case r.as == "basic" && !authorization:
		return d.Fail(n, "as: basic goes into the header Authorization")
	case r.as != "basic" && r.username != "":
		return d.Fail(n, "username goes with as: basic")
	}
	return nil
}

// Vault translates a vault document. The first rule that matches a host wins
// there, here the most specific; a document for which the two differ for any host
// is refused, naming both rules. The error is a *policy.Error where it is about a
// place.
func Vault(name string, data []byte) (*Result, error) {
	var v vault
	if _, err := read(name, data, &v, vaultFields); err != nil {
		return nil, err
	}
	rules, notes, err := v.ordered(name)
	if err != nil {
		return nil, err
	}
	r := &Result{Notes: notes, Policy: &policy.Policy{
		Name: v.name, Mode: policy.ModeAllowlist, OnFailure: policy.FailClosed,
		Setup: policy.PhasePolicy{Mode: policy.ModePublic}, Verifier: policy.PhasePolicy{Mode: policy.ModePublic},
	}}
	if err := v.hosts(name, r); err != nil {
		return nil, err
	}
	if err := v.inject(name, r, rules); err != nil {
		return nil, err
	}
	return finish(name, r)
}

// ordered drops rules that can never be the first to match, and refuses an
// order that says something else than specificity does.
func (v *vault) ordered(name string) ([]vaultRule, []string, error) {
	var out []vaultRule
	var notes []string
next:
	for _, r := range v.rules {
		for _, first := range out {
			switch {
			case !first.host.covers(r.host):
			case r.host.covers(first.host) || same(first, r):
				notes = append(notes, fmt.Sprintf("The rule for %s in line %d never applied: the one for %s in line %d comes first. It is left out.", r.host, r.at.Line, first.host, first.at.Line))
				continue next
			default:
				return nil, nil, refuse(name, r.at, "the rule for %s in line %d comes first and takes every host of this one for %s, so this one never applied; here the more specific one would. Put it in front, or remove it", first.host, first.at.Line, r.host)
			}
		}
		out = append(out, r)
	}
	return out, notes, nil
}

// same reports whether two rules do the same to a request.
func same(a, b vaultRule) bool {
	return a.secret == b.secret && strings.EqualFold(a.header, b.header) && a.query == b.query && a.as == b.as && a.username == b.username
}

// hosts translates the host policy.
func (v *vault) hosts(name string, r *Result) error {
	p := r.Policy
	switch {
	case !v.allows:
		for _, h := range v.allow {
			p.Allow = append(p.Allow, entry(h.value.Pattern, policy.MatchExact, webPorts()))
		}
		if len(p.Allow) == 0 {
			return refuse(name, policy.Pos{}, "default: block with no host under hosts.allow reaches nothing")
		}
	case len(v.block) > 0:
		p.Mode = policy.ModeDenylist
		for _, h := range v.allow {
			p.Allow = append(p.Allow, entry(h.value.Pattern, policy.MatchExact, webPorts()))
		}
	default:
		p.Mode = policy.ModePublic
	}
	for _, h := range v.block {
		p.Block = append(p.Block, entry(h.value.Pattern, policy.MatchExact, nil))
	}
	if v.allows {
		r.note("Private, loopback, carrier-grade and link-local ranges and cloud metadata are denied in every mode here; what relied on reaching one needs a cidr entry for it.")
	} else {
		r.note("Hosts are reachable at ports 80 and 443.")
	}
	if v.onFailure == "continue" {
		if !v.allows {
			return refuse(name, v.failureAt, "on_failure: continue with default: block would run without the wall that was asked for; there is no such policy")
		}
		p.OnFailure = policy.FailWarn
		r.note("A run that goes on without enforcement records that, and supports no claim.")
	}
	return nil
}

// inject translates secrets and rules.
func (v *vault) inject(name string, r *Result, rules []vaultRule) error {
	p := r.Policy
	index := map[string]int{}
	for _, s := range v.secrets {
		if _, ok := index[s.name]; ok {
			return refuse(name, s.at, "the secret %q is defined twice", s.name)
		}
		secret := policy.Secret{Name: s.name, From: s.from, Pos: s.at}
		if s.from.Kind() == "" {
			secret.From.Env = variableFor(s.name)
			r.note("The secret %s is read from the variable %s; change from if it is kept elsewhere.", s.name, secret.From.Env)
		}
		index[s.name] = len(p.Secrets)
		p.Secrets = append(p.Secrets, secret)
	}
	if len(rules) > 0 {
		r.note("Secrets are injected over https only; a rule for a host that speaks http needs cleartext: true and the port.")
	}
	for _, rule := range rules {
		i, ok := index[rule.secret]
		if !ok {
			return refuse(name, rule.at, "there is no secret %q", rule.secret)
		}
		if rule.host.every {
			return refuse(name, rule.at, "a rule for every host would send the secret %s to whoever is asked; name the hosts", rule.secret)
		}
		p.Secrets[i].Inject = append(p.Secrets[i].Inject, rule.translate())
	}
	return nil
}

func (r vaultRule) translate() policy.Rule {
	out := policy.Rule{Match: policy.MatchExact, Host: r.host.Host.String(), Ports: webPorts()[1:], Path: "/", Pos: r.at}
	if r.host.Subdomains {
		out.Match = policy.MatchSubdomains
	}
	set := policy.Setting{Secret: r.secret, As: policy.InjectHeader, Header: r.header}
	switch authorization := strings.EqualFold(r.header, "Authorization"); {
	case r.query != "":
		set.As, set.Header, set.Param = policy.InjectQuery, "", r.query
	case r.as == "basic":
		set.As, set.Header, set.Username = policy.InjectBasic, "", r.username
	case r.as == "bearer" && authorization:
		set.As, set.Header = policy.InjectBearer, ""
	case r.as == "bearer":
		set.Prefix = "Bearer "
	}
	out.Set = []policy.Setting{set}
	return out
}

// variableFor makes the name of an environment variable of a secret's name.
func variableFor(name string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
	if out == "" || '0' <= out[0] && out[0] <= '9' {
		out = "_" + out
	}
	return out
}
