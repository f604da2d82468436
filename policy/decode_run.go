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
	{"api", true, func(d *decoder, n *strict.Node, m *rawModel) (err *Error) {
		m.API, err = d.choice(n, "openai", "anthropic")
		return err
	}},
	{"url", true, func(d *decoder, n *strict.Node, m *rawModel) *Error { m.url = n; return nil }},
	{"cleartext", false, func(d *decoder, n *strict.Node, m *rawModel) (err *Error) {
		m.cleartext, err = d.boolean(n)
		return err
	}},
	{"secret", false, func(d *decoder, n *strict.Node, m *rawModel) (err *Error) {
		m.Secret, err = d.word(n, isSecretName, "the name of a secret of this policy")
		return err
	}},
	{"allow", true, func(d *decoder, n *strict.Node, m *rawModel) (err *Error) {
		m.Allow, err = d.words(n, MaxList, isModel, "the id of a model, or vendor/*")
		slices.Sort(m.Allow)
		return err
	}},
	{"hosted-search", false, func(d *decoder, n *strict.Node, m *rawModel) (err *Error) {
		m.HostedSearch, err = d.choice(n, SearchRefuse, SearchStrip, SearchAllow)
		return err
	}},
	{"self-search", false, func(d *decoder, n *strict.Node, m *rawModel) (err *Error) {
		m.SelfSearch, err = d.words(n, MaxList, isModel, "the id of a model, or vendor/*")
		slices.Sort(m.SelfSearch)
		return err
	}},
}

func (d *decoder) model(n *strict.Node, m *Model) *Error {
	raw := rawModel{Model: m}
	if _, err := decodeMap(d, n, &raw, modelFields); err != nil {
		return err
	}
	d.push("url")
	s, err := d.baseURL(raw.url, true)
	if err != nil {
		return err
	}
	u, uerr := host.ParseURL(s)
	if uerr != nil {
		return d.fail(raw.url, "%v", uerr)
	}
	if u.Scheme != "https" && !raw.cleartext {
		return d.fail(raw.url, "is not https, so the provider's key and every prompt would travel in clear; if that is meant, say cleartext: true")
	}
	d.pop()
	m.URL, m.Host, m.Port = s, u.Host, u.Port
	return nil
}

var environmentFields = []field[Environment]{
	{"set", false, func(d *decoder, n *strict.Node, e *Environment) (err *Error) {
		e.Set, err = d.variables(n)
		return err
	}},
	{"pass", false, func(d *decoder, n *strict.Node, e *Environment) (err *Error) {
		e.Pass, err = d.words(n, MaxPaths, isVariable, "the name of an environment variable")
		slices.Sort(e.Pass)
		return err
	}},
	{"ask", false, func(d *decoder, n *strict.Node, e *Environment) (err *Error) {
		e.Ask, err = d.words(n, MaxPaths, isVariable, "the name of an environment variable")
		slices.Sort(e.Ask)
		return err
	}},
	{"login", false, func(d *decoder, n *strict.Node, e *Environment) *Error {
		e.Login = &Login{Pos: pos(n)}
		if _, err := decodeMap(d, n, e.Login, loginFields); err != nil {
			return err
		}
		return d.needSource(n, e.Login.From, "from")
	}},
}

var loginFields = []field[Login]{
	{"agent", true, func(d *decoder, n *strict.Node, l *Login) (err *Error) {
		l.Agent, err = d.word(n, isSecretName, "the name of an agent")
		return err
	}},
	{"path", true, func(d *decoder, n *strict.Node, l *Login) (err *Error) {
		l.Path, err = d.word(n, isAbsolutePath, "an absolute path inside the sandbox")
		return err
	}},
	{"from", false, func(d *decoder, n *strict.Node, l *Login) *Error { return d.source(n, &l.From) }},
}

func (d *decoder) environment(n *strict.Node, e *Environment) *Error {
	if _, err := decodeMap(d, n, e, environmentFields); err != nil {
		return err
	}
	where := map[string]string{}
	note := func(key, name string) *Error {
		if other := where[name]; other != "" {
			return d.fail(n, "the variable %s stands under both %s and %s", name, other, key)
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
func (d *decoder) variables(n *strict.Node) ([]Variable, *Error) {
	if n.Kind != strict.Map {
		return nil, d.wrongKind(n, "a map from names to values")
	}
	if len(n.Members) > MaxPaths {
		return nil, d.fail(n, "has %d variables; at most %d are allowed", len(n.Members), MaxPaths)
	}
	var out []Variable
	for i := range n.Members {
		m := &n.Members[i]
		d.push(m.Name)
		if !isVariable(m.Name) {
			return nil, d.fail(&m.Value, "%.64q is not the name of an environment variable", m.Name)
		}
		if m.Value.Kind != strict.Text {
			return nil, d.wrongKind(&m.Value, "text")
		}
		if len(m.Value.Text) > MaxValue || strings.IndexByte(m.Value.Text, 0) >= 0 {
			return nil, d.fail(&m.Value, "is longer than %d bytes, or has a NUL", MaxValue)
		}
		d.pop()
		out = append(out, Variable{Name: m.Name, Value: m.Value.Text, Pos: Pos{int(m.Line), int(m.Column)}})
	}
	slices.SortFunc(out, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

var serviceFields = []field[Service]{
	{"name", true, func(d *decoder, n *strict.Node, s *Service) *Error {
		p, err := d.pattern(n)
		switch {
		case err != nil:
			return err
		case p.Subdomains || p.Host.IsAddr() || host.NameClass(p.Host.Name()) != host.ClassPublic:
			return d.fail(n, "%.64q is not a name for a service", n.Text)
		}
		s.Name = p.Host.Name()
		return nil
	}},
	{"image", true, func(d *decoder, n *strict.Node, s *Service) (err *Error) {
		s.Image, err = d.word(n, isImage, "an image pinned by digest (name@sha256:…)")
		return err
	}},
	{"ports", true, func(d *decoder, n *strict.Node, s *Service) *Error {
		return d.fullList(n, MaxPorts, func(n *strict.Node) *Error {
			v, err := d.integer(n, 1, 65535)
			if slices.Contains(s.Ports, uint16(v)) && err == nil {
				return d.fail(n, "the port %d is listed twice", v)
			}
			s.Ports = append(s.Ports, uint16(v))
			slices.Sort(s.Ports)
			return err
		})
	}},
	{"set", false, func(d *decoder, n *strict.Node, s *Service) (err *Error) {
		s.Set, err = d.variables(n)
		return err
	}},
}

func (d *decoder) service(n *strict.Node, s *Service) *Error {
	s.Pos = pos(n)
	_, err := decodeMap(d, n, s, serviceFields)
	return err
}

// counted makes a field that is a number of things.
func counted(name string, at func(*Limits) *int64) field[Limits] {
	return field[Limits]{name, false, func(d *decoder, n *strict.Node, l *Limits) (err *Error) {
		*at(l), err = d.integer(n, 1, 1<<40)
		return err
	}}
}

// sized makes a field that is a number of bytes.
func sized(name string, at func(*Limits) *int64) field[Limits] {
	return field[Limits]{name, false, func(d *decoder, n *strict.Node, l *Limits) (err *Error) {
		*at(l), err = d.size(n)
		return err
	}}
}

var limitsFields = []field[Limits]{
	{"duration", false, func(d *decoder, n *strict.Node, l *Limits) (err *Error) {
		l.Duration, err = d.duration(n, time.Second, 30*24*time.Hour)
		return err
	}},
	counted("connections", func(l *Limits) *int64 { return &l.Connections }),
	counted("requests", func(l *Limits) *int64 { return &l.Requests }),
	sized("upload", func(l *Limits) *int64 { return &l.Upload }),
	sized("download", func(l *Limits) *int64 { return &l.Download }),
	sized("memory", func(l *Limits) *int64 { return &l.Memory }),
	counted("processes", func(l *Limits) *int64 { return &l.Processes }),
	sized("disk", func(l *Limits) *int64 { return &l.Disk }),
}

func (d *decoder) limits(n *strict.Node, l *Limits) *Error {
	_, err := decodeMap(d, n, l, limitsFields)
	return err
}

var lingeringFields = []field[Lingering]{
	{"for", true, func(d *decoder, n *strict.Node, l *Lingering) (err *Error) {
		l.For, err = d.duration(n, time.Second, MaxLingering)
		return err
	}},
	{"idle", false, func(d *decoder, n *strict.Node, l *Lingering) (err *Error) {
		l.Idle, err = d.duration(n, time.Second, MaxLingering)
		return err
	}},
}

func (d *decoder) lingering(n *strict.Node, l *Lingering) *Error {
	l.Idle = 5 * time.Minute
	_, err := decodeMap(d, n, l, lingeringFields)
	return err
}

var egressFields = []field[EgressAgent]{
	{"agent", true, func(d *decoder, n *strict.Node, e *EgressAgent) *Error {
		s, err := d.text(n)
		if err != nil {
			return err
		}
		h, port, perr := host.ParseHostPort(s, 0)
		if perr != nil {
			return d.fail(n, "%.64q: %v", s, perr)
		}
		e.Address = hostPort(h, port)
		return nil
	}},
	{"server-ca", false, func(d *decoder, n *strict.Node, e *EgressAgent) *Error { return d.source(n, &e.ServerCA) }},
	{"client-cert", false, func(d *decoder, n *strict.Node, e *EgressAgent) *Error { return d.source(n, &e.ClientCert) }},
	{"client-key", false, func(d *decoder, n *strict.Node, e *EgressAgent) *Error { return d.source(n, &e.ClientKey) }},
}

func (d *decoder) egress(n *strict.Node, e *EgressAgent) *Error {
	if _, err := decodeMap(d, n, e, egressFields); err != nil {
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
