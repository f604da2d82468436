package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

func secretFields() []field[Secret] {
	return []field[Secret]{
		must("name", func(d *decoder, n *strict.Node, s *Secret) (err *strict.Error) {
			s.Name, err = d.Word(n, isSecretName, "a name of letters, digits, _, - and .")
			return err
		}),
		may("from", func(d *decoder, n *strict.Node, s *Secret) *strict.Error { return d.source(n, &s.From) }),
		may("placeholder", func(d *decoder, n *strict.Node, s *Secret) (err *strict.Error) {
			s.Placeholder, err = d.Word(n, isPlaceholder, "a placeholder of 8 to 256 printable characters without spaces")
			return err
		}),
		may("inject", func(d *decoder, n *strict.Node, s *Secret) *strict.Error {
			return d.List(n, MaxList, func(n *strict.Node) *strict.Error { return d.rules(n, s) })
		}),
	}
}

func (d *decoder) secret(n *strict.Node, s *Secret) *strict.Error {
	s.Pos = pos(n)
	if _, err := strict.DecodeMap(d, n, s, secretFields()); err != nil {
		return err
	}
	if err := d.needSource(n, s.From, "from"); err != nil {
		return err
	}
	// A setting that names no secret is about the one that its rule stands under.
	for i := range s.Inject {
		for j := range s.Inject[i].Set {
			if s.Inject[i].Set[j].Secret == "" {
				s.Inject[i].Set[j].Secret = s.Name
			}
		}
		sortSettings(s.Inject[i].Set)
	}
	return nil
}

func sortSettings(set []Setting) {
	slices.SortFunc(set, func(a, b Setting) int {
		return strings.Compare(a.Header+"\x00"+a.Param+"\x00"+a.Secret, b.Header+"\x00"+b.Param+"\x00"+b.Secret)
	})
}

// needSource refuses a missing source, except in a canonical form, which has
// none.
func (d *decoder) needSource(n *strict.Node, s Source, key string) *strict.Error {
	if s.Kind() == "" && !d.canonical {
		return d.Fail(n, "the key %q is missing: where the value is kept (env, file, vault, gcp, aws or azure)", key)
	}
	return nil
}

var sourceFields = []field[Source]{
	may("env", func(d *decoder, n *strict.Node, s *Source) (err *strict.Error) {
		s.Env, err = d.Word(n, isVariable, "the name of an environment variable")
		return err
	}),
	may("file", func(d *decoder, n *strict.Node, s *Source) (err *strict.Error) {
		s.File, err = d.Text(n)
		return err
	}),
	may("vault", func(d *decoder, n *strict.Node, s *Source) *strict.Error {
		s.Vault = &VaultSource{Mount: "secret", Engine: 2}
		_, err := strict.DecodeMap(d, n, s.Vault, vaultFields)
		return err
	}),
	may("gcp", func(d *decoder, n *strict.Node, s *Source) (err *strict.Error) {
		s.GCP, err = d.Word(n, isGCPSecret, "projects/PROJECT/secrets/SECRET/versions/VERSION")
		return err
	}),
	may("aws", func(d *decoder, n *strict.Node, s *Source) *strict.Error {
		s.AWS = &AWSSource{}
		_, err := strict.DecodeMap(d, n, s.AWS, awsFields)
		return err
	}),
	may("azure", func(d *decoder, n *strict.Node, s *Source) *strict.Error {
		s.Azure = &AzureSource{}
		_, err := strict.DecodeMap(d, n, s.Azure, azureFields)
		return err
	}),
}

var vaultFields = []field[VaultSource]{
	may("address", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Address, err = d.baseURL(n, true)
		return err
	}),
	may("namespace", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Namespace, err = d.Word(n, isVaultPath, "a path without a slash at its ends")
		return err
	}),
	may("mount", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Mount, err = d.Word(n, isVaultPath, "a path without a slash at its ends")
		return err
	}),
	must("path", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Path, err = d.Word(n, isVaultPath, "a path without a slash at its ends")
		return err
	}),
	must("field", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Field, err = d.Text(n)
		return err
	}),
	may("version", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Version, err = d.Integer(n, 1, 1<<31)
		return err
	}),
	may("engine", func(d *decoder, n *strict.Node, v *VaultSource) (err *strict.Error) {
		v.Engine, err = d.Integer(n, 1, 2)
		return err
	}),
}

var awsFields = []field[AWSSource]{
	must("id", func(d *decoder, n *strict.Node, a *AWSSource) (err *strict.Error) {
		a.ID, err = d.Word(n, isToken, "a secret's name or ARN")
		return err
	}),
	may("region", func(d *decoder, n *strict.Node, a *AWSSource) (err *strict.Error) {
		a.Region, err = d.Word(n, isToken, "a region")
		return err
	}),
	may("field", func(d *decoder, n *strict.Node, a *AWSSource) (err *strict.Error) {
		a.Field, err = d.Text(n)
		return err
	}),
	may("version", func(d *decoder, n *strict.Node, a *AWSSource) (err *strict.Error) {
		a.Version, err = d.Word(n, isToken, "a version id")
		return err
	}),
}

var azureFields = []field[AzureSource]{
	must("vault", func(d *decoder, n *strict.Node, a *AzureSource) (err *strict.Error) {
		a.Vault, err = d.baseURL(n, false)
		return err
	}),
	must("secret", func(d *decoder, n *strict.Node, a *AzureSource) (err *strict.Error) {
		a.Secret, err = d.Word(n, isToken, "a secret's name")
		return err
	}),
	may("version", func(d *decoder, n *strict.Node, a *AzureSource) (err *strict.Error) {
		a.Version, err = d.Word(n, isToken, "a version id")
		return err
	}),
}

func (d *decoder) source(n *strict.Node, s *Source) *strict.Error {
	if n.Kind == strict.Text {
		return d.Fail(n, "a policy holds no secret, only where it is kept; write for example {env: NAME} or {file: PATH}")
	}
	s.Pos = pos(n)
	if _, err := strict.DecodeMap(d, n, s, sourceFields); err != nil {
		return err
	}
	if len(n.Members) != 1 {
		return d.Fail(n, "a source has exactly one of env, file, vault, gcp, aws and azure; this one has %d", len(n.Members))
	}
	return nil
}

// baseURL reads a URL without query, with no slash at its end.
func (d *decoder) baseURL(n *strict.Node, cleartext bool) (string, *strict.Error) {
	s, err := d.Text(n)
	if err != nil {
		return "", err
	}
	u, uerr := host.ParseURL(s)
	switch {
	case uerr != nil:
		return "", d.Fail(n, "%.64q: %v", s, uerr)
	case strings.ContainsAny(s, "?#"):
		return "", d.Fail(n, "a base URL has no query and no fragment")
	case u.Scheme != "https" && !cleartext:
		return "", d.Fail(n, "%.64q is not https, so a credential would travel in clear", s)
	}
	path, perr := host.CleanPath(u.Path)
	if perr != nil {
		return "", d.Fail(n, "%.64q: %v", s, perr)
	}
	u.Path = strings.TrimSuffix(host.EncodePath(path), "/")
	return u.String(), nil
}

// rawRule collects a rule's keys; the paths make one rule each.
type rawRule struct {
	rule  Rule
	paths []string
	set   bool // has the key set
	one   Setting
}

var ruleFields = append([]field[rawRule]{
	must("host", func(d *decoder, n *strict.Node, r *rawRule) *strict.Error {
		p, err := d.pattern(n)
		r.rule.Match, r.rule.Host = MatchExact, p.Host.String()
		if p.Subdomains {
			r.rule.Match = MatchSubdomains
		}
		return err
	}),
	may("ports", func(d *decoder, n *strict.Node, r *rawRule) (err *strict.Error) {
		r.rule.Ports, err = d.ports(n)
		return err
	}),
	may("paths", func(d *decoder, n *strict.Node, r *rawRule) (err *strict.Error) {
		r.paths, err = d.paths(n)
		return err
	}),
	may("replace-only", func(d *decoder, n *strict.Node, r *rawRule) (err *strict.Error) {
		r.rule.ReplaceOnly, err = d.Boolean(n)
		return err
	}),
	may("cleartext", func(d *decoder, n *strict.Node, r *rawRule) (err *strict.Error) {
		r.rule.Cleartext, err = d.Boolean(n)
		return err
	}),
	may("set", func(d *decoder, n *strict.Node, r *rawRule) *strict.Error {
		r.set = true
		return d.FullList(n, MaxPorts, func(n *strict.Node) *strict.Error {
			var s Setting
			if _, err := strict.DecodeMap(d, n, &s, settingFields); err != nil {
				return err
			}
			r.rule.Set = append(r.rule.Set, s)
			return d.setting(n, &r.rule.Set[len(r.rule.Set)-1])
		})
	}),
}, liftFields(settingFields[1:])...)

var settingFields = []field[Setting]{
	may("secret", func(d *decoder, n *strict.Node, s *Setting) (err *strict.Error) {
		s.Secret, err = d.Word(n, isSecretName, "the name of a secret of this policy")
		return err
	}),
	may("as", func(d *decoder, n *strict.Node, s *Setting) *strict.Error {
		as, err := d.Choice(n, string(InjectBearer), string(InjectBasic), string(InjectHeader), string(InjectQuery))
		s.As = Kind(as)
		return err
	}),
	may("header", func(d *decoder, n *strict.Node, s *Setting) *strict.Error {
		h, err := d.Word(n, isHeader, "the name of a header that may be set")
		s.Header = canonicalHeader(h)
		return err
	}),
	may("prefix", func(d *decoder, n *strict.Node, s *Setting) (err *strict.Error) {
		s.Prefix, err = d.Word(n, isPrefix, "a prefix of at most 64 printable characters")
		return err
	}),
	may("username", func(d *decoder, n *strict.Node, s *Setting) (err *strict.Error) {
		s.Username, err = d.Word(n, isUsername, "a user name of printable characters without a colon")
		return err
	}),
	may("param", func(d *decoder, n *strict.Node, s *Setting) (err *strict.Error) {
		s.Param, err = d.Word(n, isParam, "the name of a query parameter")
		return err
	}),
}

// liftFields makes the keys of a setting keys of a rule, for the short form.
func liftFields(in []field[Setting]) []field[rawRule] {
	var out []field[rawRule]
	for _, f := range in {
		out = append(out, may(f.Name, func(d *decoder, n *strict.Node, r *rawRule) *strict.Error { return f.Set(d, n, &r.one) }))
	}
	return out
}

// rules reads one element of inject, which is one rule for each of its paths.
func (d *decoder) rules(n *strict.Node, s *Secret) *strict.Error {
	r := rawRule{rule: Rule{Pos: pos(n)}}
	if _, err := strict.DecodeMap(d, n, &r, ruleFields); err != nil {
		return err
	}
	switch {
	case r.set && r.one != (Setting{}):
		return d.Fail(n, "with set, the keys as, header, prefix, username and param stand in its elements")
	case !r.set:
		if err := d.setting(n, &r.one); err != nil {
			return err
		}
		r.rule.Set = []Setting{r.one}
	}
	if err := d.checkSettings(n, r.rule.Set); err != nil {
		return err
	}
	if r.rule.Ports == nil {
		r.rule.Ports = httpsOnly
	}
	if r.paths == nil {
		r.paths = []string{"/"}
	}
	for _, p := range r.paths {
		rule := r.rule
		rule.Path, rule.Set = p, slices.Clone(r.rule.Set)
		s.Inject = append(s.Inject, rule)
	}
	return nil
}

// setting checks that the keys of one setting go together.
func (d *decoder) setting(n *strict.Node, s *Setting) *strict.Error {
	takes := map[Kind][4]bool{ // header, prefix, username, param
		InjectBearer: {}, InjectBasic: {2: true}, InjectHeader: {0: true, 1: true}, InjectQuery: {3: true},
	}
	allowed, ok := takes[s.As]
	if !ok {
		return d.Fail(n, "the key \"as\" is missing: bearer, basic, header or query")
	}
	for i, v := range []string{s.Header, s.Prefix, s.Username, s.Param} {
		if v != "" && !allowed[i] {
			return d.Fail(n, "as: %s does not take the key %q", s.As, [...]string{"header", "prefix", "username", "param"}[i])
		}
	}
	switch {
	case s.As == InjectHeader && s.Header == "":
		return d.Fail(n, "as: header needs the key \"header\"")
	case s.As == InjectQuery && s.Param == "":
		return d.Fail(n, "as: query needs the key \"param\"")
	case s.As == InjectBearer || s.As == InjectBasic:
		s.Header = "Authorization"
	}
	return nil
}

// checkSettings refuses two settings of one rule in one place.
func (d *decoder) checkSettings(n *strict.Node, set []Setting) *strict.Error {
	seen := map[string]bool{}
	for _, s := range set {
		place := "the header " + s.Header
		if s.As == InjectQuery {
			place = "the parameter " + s.Param
		}
		if seen[place] {
			return d.Fail(n, "sets %s twice", place)
		}
		seen[place] = true
	}
	return nil
}

func brokerFields() []field[Broker] {
	return []field[Broker]{
		may("name", func(d *decoder, n *strict.Node, b *Broker) (err *strict.Error) {
			b.Name, err = d.Word(n, isSecretName, "a name of letters, digits, _, - and .")
			return err
		}),
		must("host", func(d *decoder, n *strict.Node, b *Broker) *strict.Error {
			p, err := d.pattern(n)
			if err == nil && (p.Subdomains || p.Host.IsAddr()) {
				err = d.Fail(n, "a broker serves one host by name")
			}
			b.Host = p.Host.Name()
			return err
		}),
		may("port", func(d *decoder, n *strict.Node, b *Broker) *strict.Error {
			v, err := d.Integer(n, 1, 65535)
			b.Port = uint16(v)
			return err
		}),
		must("api", func(d *decoder, n *strict.Node, b *Broker) (err *strict.Error) {
			b.API, err = d.baseURL(n, false)
			return err
		}),
		must("app", func(d *decoder, n *strict.Node, b *Broker) (err *strict.Error) {
			if n.Kind == strict.Int {
				_, err = d.Integer(n, 1, 1<<53)
				b.App = n.Text
				return err
			}
			b.App, err = d.Word(n, isToken, "an App id or client id")
			return err
		}),
		must("installation", func(d *decoder, n *strict.Node, b *Broker) (err *strict.Error) {
			b.Installation, err = d.Integer(n, 1, 1<<53)
			return err
		}),
		may("key", func(d *decoder, n *strict.Node, b *Broker) *strict.Error { return d.source(n, &b.Key) }),
		may("lease", func(d *decoder, n *strict.Node, b *Broker) (err *strict.Error) {
			b.Lease, err = d.Duration(n, time.Minute, maxLeaseMin*time.Minute)
			return err
		}),
		must("repositories", func(d *decoder, n *strict.Node, b *Broker) *strict.Error {
			if err := strict.DecodeList(d, n, MaxList, &b.Repositories, (*decoder).repository); err != nil {
				return err
			}
			if len(b.Repositories) == 0 {
				return d.Fail(n, "is empty: a broker serves at least one repository")
			}
			return nil
		}),
	}
}

func (d *decoder) broker(n *strict.Node, b *Broker) *strict.Error {
	*b = Broker{Port: 443, Lease: 10 * time.Minute, Pos: pos(n)}
	if _, err := strict.DecodeMap(d, n, b, brokerFields()); err != nil {
		return err
	}
	if b.Name == "" {
		b.Name = b.Host
	}
	return d.needSource(n, b.Key, "key")
}

var repositoryFields = []field[Repository]{
	must("name", func(d *decoder, n *strict.Node, r *Repository) *strict.Error {
		s, err := d.Word(n, isRepository, "a repository such as owner/name")
		r.Name = strings.TrimSuffix(strings.ToLower(s), ".git")
		return err
	}),
	may("push", func(d *decoder, n *strict.Node, r *Repository) (err *strict.Error) {
		r.Push, err = d.Words(n, MaxPaths, isRefPattern, "a full ref such as refs/heads/main or refs/heads/agent/*")
		slices.Sort(r.Push)
		return err
	}),
}

func (d *decoder) repository(n *strict.Node, r *Repository) *strict.Error {
	r.Pos = pos(n)
	_, err := strict.DecodeMap(d, n, r, repositoryFields)
	return err
}
