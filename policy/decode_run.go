package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// MaxLingering is the longest that a proxy and its credentials may stay after
// their run.
const MaxLingering = 24 * time.Hour

// rawModel collects a model's keys before they are judged together.
type rawModel struct {
	*Model
	cleartext bool
	url       *strict.Node
}

var modelFields = []field[rawModel]{
	must("api", func(d *decoder, n *strict.Node, m *rawModel) (err *strict.Error) {
		m.API, err = d.Choice(n, "openai", "anthropic")
		return err
	}),
	must("url", func(d *decoder, n *strict.Node, m *rawModel) *strict.Error { m.url = n; return nil }),
	may("cleartext", func(d *decoder, n *strict.Node, m *rawModel) (err *strict.Error) {
		m.cleartext, err = d.Boolean(n)
		return err
	}),
	may("secret", func(d *decoder, n *strict.Node, m *rawModel) (err *strict.Error) {
		m.Secret, err = d.Word(n, isSecretName, "the name of a secret of this policy")
		return err
	}),
	must("allow", func(d *decoder, n *strict.Node, m *rawModel) (err *strict.Error) {
		m.Allow, err = d.Words(n, MaxList, isModel, "the id of a model, or vendor/*")
		slices.Sort(m.Allow)
		return err
	}),
	may("hosted-search", func(d *decoder, n *strict.Node, m *rawModel) (err *strict.Error) {
		m.HostedSearch, err = d.Choice(n, SearchRefuse, SearchStrip, SearchAllow)
		return err
	}),
	may("self-search", func(d *decoder, n *strict.Node, m *rawModel) (err *strict.Error) {
		m.SelfSearch, err = d.Words(n, MaxList, isModel, "the id of a model, or vendor/*")
		slices.Sort(m.SelfSearch)
		return err
	}),
}

func (d *decoder) model(n *strict.Node, m *Model) *strict.Error {
	raw := rawModel{Model: m}
	if _, err := strict.DecodeMap(d, n, &raw, modelFields); err != nil {
		return err
	}
	d.Push("url")
	s, err := d.baseURL(raw.url, true)
	if err != nil {
		return err
	}
	u, uerr := host.ParseURL(s)
	if uerr != nil {
		return d.Fail(raw.url, "%v", uerr)
	}
	if u.Scheme != "https" && !raw.cleartext {
		return d.Fail(raw.url, "is not https, so the provider's key and every prompt would travel in clear; if that is meant, say cleartext: true")
	}
	d.Pop()
	m.URL, m.Host, m.Port = s, u.Host, u.Port
	return nil
}

var environmentFields = []field[Environment]{
	may("set", func(d *decoder, n *strict.Node, e *Environment) (err *strict.Error) {
		e.Set, err = d.variables(n)
		return err
	}),
	may("pass", func(d *decoder, n *strict.Node, e *Environment) (err *strict.Error) {
		e.Pass, err = d.Words(n, MaxPaths, isVariable, "the name of an environment variable")
		slices.Sort(e.Pass)
		return err
	}),
	may("ask", func(d *decoder, n *strict.Node, e *Environment) (err *strict.Error) {
		e.Ask, err = d.Words(n, MaxPaths, isVariable, "the name of an environment variable")
		slices.Sort(e.Ask)
		return err
	}),
	may("login", func(d *decoder, n *strict.Node, e *Environment) *strict.Error {
		e.Login = &Login{Pos: pos(n)}
		if _, err := strict.DecodeMap(d, n, e.Login, loginFields); err != nil {
			return err
		}
		return d.needSource(n, e.Login.From, "from")
	}),
}

var loginFields = []field[Login]{
	must("agent", func(d *decoder, n *strict.Node, l *Login) (err *strict.Error) {
		l.Agent, err = d.Word(n, isSecretName, "the name of an agent")
		return err
	}),
	must("path", func(d *decoder, n *strict.Node, l *Login) (err *strict.Error) {
		l.Path, err = d.Word(n, isAbsolutePath, "an absolute path inside the sandbox")
		return err
	}),
	may("from", func(d *decoder, n *strict.Node, l *Login) *strict.Error { return d.source(n, &l.From) }),
}

func (d *decoder) environment(n *strict.Node, e *Environment) *strict.Error {
	if _, err := strict.DecodeMap(d, n, e, environmentFields); err != nil {
		return err
	}
	where := map[string]string{}
	note := func(key, name string) *strict.Error {
		if other := where[name]; other != "" {
			return d.Fail(n, "the variable %s stands under both %s and %s", name, other, key)
		}
		where[name] = key
		return nil
	}
	for _, v := range e.Set {
		if err := note("set", v.Name); err != nil {
			return err
		}
	}
	for _, group := range []struct {
		key   string
		names []string
	}{{"pass", e.Pass}, {"ask", e.Ask}} {
		for _, name := range group.names {
			if err := note(group.key, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// variables reads a map from names to values.
func (d *decoder) variables(n *strict.Node) ([]Variable, *strict.Error) {
	if n.Kind != strict.Map {
		return nil, d.WrongKind(n, "a map from names to values")
	}
	if len(n.Members) > MaxPaths {
		return nil, d.Fail(n, "has %d variables; at most %d are allowed", len(n.Members), MaxPaths)
	}
	var out []Variable
	for i := range n.Members {
		m := &n.Members[i]
		d.Push(m.Name)
		if !isVariable(m.Name) {
			return nil, d.Fail(&m.Value, "%.64q is not the name of an environment variable", m.Name)
		}
		if m.Value.Kind != strict.Text {
			return nil, d.WrongKind(&m.Value, "text")
		}
		if len(m.Value.Text) > MaxValue || strings.IndexByte(m.Value.Text, 0) >= 0 {
			return nil, d.Fail(&m.Value, "is longer than %d bytes, or has a NUL", MaxValue)
		}
		d.Pop()
		out = append(out, Variable{Name: m.Name, Value: m.Value.Text, Pos: Pos{int(m.Line), int(m.Column)}})
	}
	slices.SortFunc(out, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

var serviceFields = []field[Service]{
	must("name", func(d *decoder, n *strict.Node, s *Service) *strict.Error {
		p, err := d.pattern(n)
		switch {
		case err != nil:
			return err
		case p.Subdomains || p.Host.IsAddr() || host.NameClass(p.Host.Name()) != host.ClassPublic:
			return d.Fail(n, "%.64q is not a name for a service", n.Text)
		}
		s.Name = p.Host.Name()
		return nil
	}),
	must("image", func(d *decoder, n *strict.Node, s *Service) (err *strict.Error) {
		s.Image, err = d.Word(n, isImage, "an image pinned by digest (name@sha256:…)")
		return err
	}),
	must("ports", func(d *decoder, n *strict.Node, s *Service) *strict.Error {
		return d.FullList(n, MaxPorts, func(n *strict.Node) *strict.Error {
			v, err := d.Integer(n, 1, 65535)
			if slices.Contains(s.Ports, uint16(v)) && err == nil {
				return d.Fail(n, "the port %d is listed twice", v)
			}
			s.Ports = append(s.Ports, uint16(v))
			slices.Sort(s.Ports)
			return err
		})
	}),
	may("set", func(d *decoder, n *strict.Node, s *Service) (err *strict.Error) {
		s.Set, err = d.variables(n)
		return err
	}),
}

func (d *decoder) service(n *strict.Node, s *Service) *strict.Error {
	s.Pos = pos(n)
	_, err := strict.DecodeMap(d, n, s, serviceFields)
	return err
}

// counted makes a field that is a number of things.
func counted(name string, at func(*Limits) *int64) field[Limits] {
	return may(name, func(d *decoder, n *strict.Node, l *Limits) (err *strict.Error) {
		*at(l), err = d.Integer(n, 1, 1<<40)
		return err
	})
}

// sized makes a field that is a number of bytes.
func sized(name string, at func(*Limits) *int64) field[Limits] {
	return may(name, func(d *decoder, n *strict.Node, l *Limits) (err *strict.Error) {
		*at(l), err = d.Size(n)
		return err
	})
}

var limitsFields = []field[Limits]{
	may("duration", func(d *decoder, n *strict.Node, l *Limits) (err *strict.Error) {
		l.Duration, err = d.Duration(n, time.Second, 30*24*time.Hour)
		return err
	}),
	counted("connections", func(l *Limits) *int64 { return &l.Connections }),
	counted("requests", func(l *Limits) *int64 { return &l.Requests }),
	sized("upload", func(l *Limits) *int64 { return &l.Upload }),
	sized("download", func(l *Limits) *int64 { return &l.Download }),
	sized("memory", func(l *Limits) *int64 { return &l.Memory }),
	counted("processes", func(l *Limits) *int64 { return &l.Processes }),
	sized("disk", func(l *Limits) *int64 { return &l.Disk }),
}

func (d *decoder) limits(n *strict.Node, l *Limits) *strict.Error {
	_, err := strict.DecodeMap(d, n, l, limitsFields)
	return err
}

var lingeringFields = []field[Lingering]{
	must("for", func(d *decoder, n *strict.Node, l *Lingering) (err *strict.Error) {
		l.For, err = d.Duration(n, time.Second, MaxLingering)
		return err
	}),
	may("idle", func(d *decoder, n *strict.Node, l *Lingering) (err *strict.Error) {
		l.Idle, err = d.Duration(n, time.Second, MaxLingering)
		return err
	}),
}

func (d *decoder) lingering(n *strict.Node, l *Lingering) *strict.Error {
	l.Idle = 5 * time.Minute
	_, err := strict.DecodeMap(d, n, l, lingeringFields)
	return err
}

var egressFields = []field[EgressAgent]{
	must("agent", func(d *decoder, n *strict.Node, e *EgressAgent) *strict.Error {
		s, err := d.Text(n)
		if err != nil {
			return err
		}
		h, port, perr := host.ParseHostPort(s, 0)
		if perr != nil {
			return d.Fail(n, "%.64q: %v", s, perr)
		}
		e.Address = hostPort(h, port)
		return nil
	}),
	may("server-ca", func(d *decoder, n *strict.Node, e *EgressAgent) *strict.Error { return d.source(n, &e.ServerCA) }),
	may("client-cert", func(d *decoder, n *strict.Node, e *EgressAgent) *strict.Error { return d.source(n, &e.ClientCert) }),
	may("client-key", func(d *decoder, n *strict.Node, e *EgressAgent) *strict.Error { return d.source(n, &e.ClientKey) }),
}

func (d *decoder) egress(n *strict.Node, e *EgressAgent) *strict.Error {
	if _, err := strict.DecodeMap(d, n, e, egressFields); err != nil {
		return err
	}
	for _, s := range []struct {
		source Source
		key    string
	}{{e.ServerCA, "server-ca"}, {e.ClientCert, "client-cert"}, {e.ClientKey, "client-key"}} {
		if err := d.needSource(n, s.source, s.key); err != nil {
			return err
		}
	}
	return nil
}
