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
		{"name", true, func(d *decoder, n *strict.Node, s *Secret) (err *Error) {
			s.Name, err = d.word(n, isSecretName, "a name of letters, digits, _, - and .")
			return err
		}},
		{"from", false, func(d *decoder, n *strict.Node, s *Secret) *Error { return d.source(n, &s.From) }},
		{"placeholder", false, func(d *decoder, n *strict.Node, s *Secret) (err *Error) {
			s.Placeholder, err = d.word(n, isPlaceholder, "a placeholder of 8 to 256 printable characters without spaces")
			return err
		}},
		{"inject", false, func(d *decoder, n *strict.Node, s *Secret) *Error {
			return d.list(n, MaxList, func(n *strict.Node) *Error { return d.rules(n, s) })
		}},
	}
}

func (d *decoder) secret(n *strict.Node, s *Secret) *Error {
	s.Pos = pos(n)
	if _, err := decodeMap(d, n, s, secretFields()); err != nil {
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
func (d *decoder) needSource(n *strict.Node, s Source, key string) *Error {
	if s.Kind() == "" && !d.canonical {
		return d.fail(n, "the key %q is missing: where the value is kept (env, file, vault, gcp, aws or azure)", key)
	}
	return nil
}

var sourceFields = []field[Source]{
	{"env", false, func(d *decoder, n *strict.Node, s *Source) (err *Error) {
		s.Env, err = d.word(n, isVariable, "the name of an environment variable")
		return err
	}},
	{"file", false, func(d *decoder, n *strict.Node, s *Source) (err *Error) {
		s.File, err = d.text(n)
		return err
	}},
	{"vault", false, func(d *decoder, n *strict.Node, s *Source) *Error {
		s.Vault = &VaultSource{Mount: "secret", Engine: 2}
		_, err := decodeMap(d, n, s.Vault, vaultFields)
		return err
	}},
	{"gcp", false, func(d *decoder, n *strict.Node, s *Source) (err *Error) {
		s.GCP, err = d.word(n, isGCPSecret, "projects/PROJECT/secrets/SECRET/versions/VERSION")
		return err
	}},
	{"aws", false, func(d *decoder, n *strict.Node, s *Source) *Error {
		s.AWS = &AWSSource{}
		_, err := decodeMap(d, n, s.AWS, awsFields)
		return err
	}},
	{"azure", false, func(d *decoder, n *strict.Node, s *Source) *Error {
		s.Azure = &AzureSource{}
		_, err := decodeMap(d, n, s.Azure, azureFields)
		return err
	}},
}

var vaultFields = []field[VaultSource]{
	{"address", false, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Address, err = d.baseURL(n, true)
		return err
	}},
	{"namespace", false, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Namespace, err = d.word(n, isVaultPath, "a path without a slash at its ends")
		return err
	}},
	{"mount", false, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Mount, err = d.word(n, isVaultPath, "a path without a slash at its ends")
		return err
	}},
	{"path", true, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Path, err = d.word(n, isVaultPath, "a path without a slash at its ends")
		return err
	}},
	{"field", true, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Field, err = d.text(n)
		return err
	}},
	{"version", false, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Version, err = d.integer(n, 1, 1<<31)
		return err
	}},
	{"engine", false, func(d *decoder, n *strict.Node, v *VaultSource) (err *Error) {
		v.Engine, err = d.integer(n, 1, 2)
		return err
	}},
}

var awsFields = []field[AWSSource]{
	{"id", true, func(d *decoder, n *strict.Node, a *AWSSource) (err *Error) {
		a.ID, err = d.word(n, isToken, "a secret's name or ARN")
		return err
	}},
	{"region", false, func(d *decoder, n *strict.Node, a *AWSSource) (err *Error) {
		a.Region, err = d.word(n, isToken, "a region")
		return err
	}},
	{"field", false, func(d *decoder, n *strict.Node, a *AWSSource) (err *Error) {
		a.Field, err = d.text(n)
		return err
	}},
	{"version", false, func(d *decoder, n *strict.Node, a *AWSSource) (err *Error) {
		a.Version, err = d.word(n, isToken, "a version id")
		return err
	}},
}

var azureFields = []field[AzureSource]{
	{"vault", true, func(d *decoder, n *strict.Node, a *AzureSource) (err *Error) {
		a.Vault, err = d.baseURL(n, false)
		return err
	}},
	{"secret", true, func(d *decoder, n *strict.Node, a *AzureSource) (err *Error) {
		a.Secret, err = d.word(n, isToken, "a secret's name")
		return err
	}},
	{"version", false, func(d *decoder, n *strict.Node, a *AzureSource) (err *Error) {
		a.Version, err = d.word(n, isToken, "a version id")
		return err
	}},
}

func (d *decoder) source(n *strict.Node, s *Source) *Error {
	if n.Kind == strict.Text {
		return d.fail(n, "a policy holds no secret, only where it is kept; write for example {env: NAME} or {file: PATH}")
	}
	s.Pos = pos(n)
	if _, err := decodeMap(d, n, s, sourceFields); err != nil {
		return err
	}
	if len(n.Members) != 1 {
		return d.fail(n, "a source has exactly one of env, file, vault, gcp, aws and azure; this one has %d", len(n.Members))
	}
	return nil
}

// baseURL reads a URL without query, with no slash at its end.
func (d *decoder) baseURL(n *strict.Node, cleartext bool) (string, *Error) {
	s, err := d.text(n)
	if err != nil {
		return "", err
	}
	u, uerr := host.ParseURL(s)
	switch {
	case uerr != nil:
		return "", d.fail(n, "%.64q: %v", s, uerr)
	case strings.ContainsAny(s, "?#"):
		return "", d.fail(n, "a base URL has no query and no fragment")
	case u.Scheme != "https" && !cleartext:
		return "", d.fail(n, "%.64q is not https, so a credential would travel in clear", s)
	}
	path, perr := host.CleanPath(u.Path)
	if perr != nil {
		return "", d.fail(n, "%.64q: %v", s, perr)
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
	{"host", true, func(d *decoder, n *strict.Node, r *rawRule) *Error {
		p, err := d.pattern(n)
		r.rule.Match, r.rule.Host = MatchExact, p.Host.String()
		if p.Subdomains {
			r.rule.Match = MatchSubdomains
		}
		return err
	}},
	{"ports", false, func(d *decoder, n *strict.Node, r *rawRule) (err *Error) {
		r.rule.Ports, err = d.ports(n)
		return err
	}},
	{"paths", false, func(d *decoder, n *strict.Node, r *rawRule) (err *Error) {
		r.paths, err = d.paths(n)
		return err
	}},
	{"replace-only", false, func(d *decoder, n *strict.Node, r *rawRule) (err *Error) {
		r.rule.ReplaceOnly, err = d.boolean(n)
		return err
	}},
	{"cleartext", false, func(d *decoder, n *strict.Node, r *rawRule) (err *Error) {
		r.rule.Cleartext, err = d.boolean(n)
		return err
	}},
	{"set", false, func(d *decoder, n *strict.Node, r *rawRule) *Error {
		r.set = true
		return d.fullList(n, MaxPorts, func(n *strict.Node) *Error {
			var s Setting
			if _, err := decodeMap(d, n, &s, settingFields); err != nil {
				return err
			}
			r.rule.Set = append(r.rule.Set, s)
			return d.setting(n, &r.rule.Set[len(r.rule.Set)-1])
		})
	}},
}, liftFields(settingFields[1:])...)

var settingFields = []field[Setting]{
	{"secret", false, func(d *decoder, n *strict.Node, s *Setting) (err *Error) {
		s.Secret, err = d.word(n, isSecretName, "the name of a secret of this policy")
		return err
	}},
	{"as", false, func(d *decoder, n *strict.Node, s *Setting) *Error {
		as, err := d.choice(n, string(InjectBearer), string(InjectBasic), string(InjectHeader), string(InjectQuery))
		s.As = Kind(as)
		return err
	}},
	{"header", false, func(d *decoder, n *strict.Node, s *Setting) *Error {
		h, err := d.word(n, isHeader, "the name of a header that may be set")
		s.Header = canonicalHeader(h)
		return err
	}},
	{"prefix", false, func(d *decoder, n *strict.Node, s *Setting) (err *Error) {
		s.Prefix, err = d.word(n, isPrefix, "a prefix of at most 64 printable characters")
		return err
	}},
	{"username", false, func(d *decoder, n *strict.Node, s *Setting) (err *Error) {
		s.Username, err = d.word(n, isUsername, "a user name of printable characters without a colon")
		return err
	}},
	{"param", false, func(d *decoder, n *strict.Node, s *Setting) (err *Error) {
		s.Param, err = d.word(n, isParam, "the name of a query parameter")
		return err
	}},
}

// liftFields makes the keys of a setting keys of a rule, for the short form.
func liftFields(in []field[Setting]) []field[rawRule] {
	var out []field[rawRule]
	for _, f := range in {
		out = append(out, field[rawRule]{f.name, false, func(d *decoder, n *strict.Node, r *rawRule) *Error { return f.set(d, n, &r.one) }})
	}
	return out
}

// rules reads one element of inject, which is one rule for each of its paths.
func (d *decoder) rules(n *strict.Node, s *Secret) *Error {
	r := rawRule{rule: Rule{Pos: pos(n)}}
	if _, err := decodeMap(d, n, &r, ruleFields); err != nil {
		return err
	}
	switch {
	case r.set && r.one != (Setting{}):
		return d.fail(n, "with set, the keys as, header, prefix, username and param stand in its elements")
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
func (d *decoder) setting(n *strict.Node, s *Setting) *Error {
	takes := map[Kind][4]bool{ // header, prefix, username, param
		InjectBearer: {}, InjectBasic: {2: true}, InjectHeader: {0: true, 1: true}, InjectQuery: {3: true},
	}
	allowed, ok := takes[s.As]
	if !ok {
		return d.fail(n, "the key \"as\" is missing: bearer, basic, header or query")
	}
	for i, v := range []string{s.Header, s.Prefix, s.Username, s.Param} {
		if v != "" && !allowed[i] {
			return d.fail(n, "as: %s does not take the key %q", s.As, [...]string{"header", "prefix", "username", "param"}[i])
		}
	}
	switch {
	case s.As == InjectHeader && s.Header == "":
		return d.fail(n, "as: header needs the key \"header\"")
	case s.As == InjectQuery && s.Param == "":
		return d.fail(n, "as: query needs the key \"param\"")
	case s.As == InjectBearer || s.As == InjectBasic:
		s.Header = "Authorization"
	}
	return nil
}

// checkSettings refuses two settings of one rule in one place.
func (d *decoder) checkSettings(n *strict.Node, set []Setting) *Error {
	seen := map[string]bool{}
	for _, s := range set {
		place := "the header " + s.Header
		if s.As == InjectQuery {
			place = "the parameter " + s.Param
		}
		if seen[place] {
			return d.fail(n, "sets %s twice", place)
		}
		seen[place] = true
	}
	return nil
}

func brokerFields() []field[Broker] {
	return []field[Broker]{
		{"name", false, func(d *decoder, n *strict.Node, b *Broker) (err *Error) {
			b.Name, err = d.word(n, isSecretName, "a name of letters, digits, _, - and .")
			return err
		}},
		{"host", true, func(d *decoder, n *strict.Node, b *Broker) *Error {
			p, err := d.pattern(n)
			if err == nil && (p.Subdomains || p.Host.IsAddr()) {
				err = d.fail(n, "a broker serves one host by name")
			}
			b.Host = p.Host.Name()
			return err
		}},
		{"port", false, func(d *decoder, n *strict.Node, b *Broker) *Error {
			v, err := d.integer(n, 1, 65535)
			b.Port = uint16(v)
			return err
		}},
		{"api", true, func(d *decoder, n *strict.Node, b *Broker) (err *Error) {
			b.API, err = d.baseURL(n, false)
			return err
		}},
		{"app", true, func(d *decoder, n *strict.Node, b *Broker) (err *Error) {
			if n.Kind == strict.Int {
				_, err = d.integer(n, 1, 1<<53)
				b.App = n.Text
				return err
			}
			b.App, err = d.word(n, isToken, "an App id or client id")
			return err
		}},
		{"installation", true, func(d *decoder, n *strict.Node, b *Broker) (err *Error) {
			b.Installation, err = d.integer(n, 1, 1<<53)
			return err
		}},
		{"key", false, func(d *decoder, n *strict.Node, b *Broker) *Error { return d.source(n, &b.Key) }},
		{"lease", false, func(d *decoder, n *strict.Node, b *Broker) (err *Error) {
			b.Lease, err = d.duration(n, time.Minute, maxLeaseMin*time.Minute)
			return err
		}},
		{"repositories", true, func(d *decoder, n *strict.Node, b *Broker) *Error {
			if err := decodeList(d, n, MaxList, &b.Repositories, (*decoder).repository); err != nil {
				return err
			}
			if len(b.Repositories) == 0 {
				return d.fail(n, "is empty: a broker serves at least one repository")
			}
			return nil
		}},
	}
}

func (d *decoder) broker(n *strict.Node, b *Broker) *Error {
	*b = Broker{Port: 443, Lease: 10 * time.Minute, Pos: pos(n)}
	if _, err := decodeMap(d, n, b, brokerFields()); err != nil {
		return err
	}
	if b.Name == "" {
		b.Name = b.Host
	}
	return d.needSource(n, b.Key, "key")
}

var repositoryFields = []field[Repository]{
	{"name", true, func(d *decoder, n *strict.Node, r *Repository) *Error {
		s, err := d.word(n, isRepository, "a repository such as owner/name")
		r.Name = strings.TrimSuffix(strings.ToLower(s), ".git")
		return err
	}},
	{"push", false, func(d *decoder, n *strict.Node, r *Repository) (err *Error) {
		r.Push, err = d.words(n, MaxPaths, isRefPattern, "a full ref such as refs/heads/main or refs/heads/agent/*")
		slices.Sort(r.Push)
		return err
	}},
}

func (d *decoder) repository(n *strict.Node, r *Repository) *Error {
	r.Pos = pos(n)
	_, err := decodeMap(d, n, r, repositoryFields)
	return err
}
