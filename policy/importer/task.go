package importer

import (
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// task is a task file. Only what concerns the boundary is read; other keys are
// refused, so that nothing is dropped in silence.
type task struct {
	name     string
	mode     string
	modeAt   policy.Pos
	allowed  []located[host.Pattern]
	blocked  []located[host.Pattern]
	urls     []located[host.URL]
	env      []string
	services []service
	allowAt  *strict.Node
}

type located[T any] struct {
	value T
	at    policy.Pos
}

type service struct {
	name, image string
	ports       []uint16
	at          policy.Pos
}

var taskFields = []field[task]{
	may("name", func(d *decoder, n *strict.Node, t *task) (err *strict.Error) {
		t.name, err = d.Text(n)
		return err
	}),
	must("network_mode", func(d *decoder, n *strict.Node, t *task) (err *strict.Error) {
		t.modeAt = pos(n)
		t.mode, err = d.Choice(n, "public", "no-network", "denylist", "allowlist")
		return err
	}),
	may("allowed_hosts", func(d *decoder, n *strict.Node, t *task) *strict.Error {
		t.allowAt = n
		return hosts(d, n, &t.allowed)
	}),
	may("blocked_hosts", func(d *decoder, n *strict.Node, t *task) *strict.Error { return hosts(d, n, &t.blocked) }),
	may("blocked_urls", func(d *decoder, n *strict.Node, t *task) *strict.Error {
		return d.List(n, maxList, func(n *strict.Node) *strict.Error {
			s, err := d.Text(n)
			if err != nil {
				return err
			}
			if !strings.Contains(s, "://") {
				s = "https://" + s
			}
			u, uerr := host.ParseURL(s)
			if uerr != nil {
				return d.Fail(n, "%.64q: %v", s, uerr)
			}
			if u.Query != "" {
				return d.Fail(n, "%.64q has a query; a blocked URL is a path and all under it", s)
			}
			t.urls = append(t.urls, located[host.URL]{u, pos(n)})
			return nil
		})
	}),
	may("env", func(d *decoder, n *strict.Node, t *task) (err *strict.Error) {
		t.env, err = d.Words(n, 1000, isVariable, "the name of an environment variable")
		return err
	}),
	may("services", func(d *decoder, n *strict.Node, t *task) *strict.Error {
		return strict.DecodeList(d, n, 1000, &t.services, func(d *decoder, n *strict.Node, s *service) *strict.Error {
			s.at = pos(n)
			_, err := strict.DecodeMap(d, n, s, serviceFields)
			return err
		})
	}),
}

var serviceFields = []field[service]{
	must("name", func(d *decoder, n *strict.Node, s *service) (err *strict.Error) {
		s.name, err = d.Text(n)
		return err
	}),
	must("image", func(d *decoder, n *strict.Node, s *service) (err *strict.Error) {
		s.image, err = d.Word(n, func(s string) bool { return strings.Contains(s, "@sha256:") }, "an image pinned by digest (name@sha256:…)")
		return err
	}),
	must("ports", func(d *decoder, n *strict.Node, s *service) *strict.Error {
		return d.FullList(n, 64, func(n *strict.Node) *strict.Error {
			v, err := d.Integer(n, 1, 65535)
			s.ports = append(s.ports, uint16(v))
			return err
		})
	}),
}

func isVariable(s string) bool {
	for i, c := range s {
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func hosts(d *decoder, n *strict.Node, out *[]located[host.Pattern]) *strict.Error {
	return d.List(n, maxList, func(n *strict.Node) *strict.Error {
		s, err := d.Text(n)
		if err != nil {
			return err
		}
		p, perr := host.ParsePattern(s)
		if perr != nil {
			return d.Fail(n, "%.64q: %v", s, perr)
		}
		*out = append(*out, located[host.Pattern]{p, pos(n)})
		return nil
	})
}

// Task translates a task file. model, which may be nil, is the run's model
// endpoint: a task names none, but an empty allowlist admits only the model and is
// refused without one. The error is a *policy.Error where it is about a place.
func Task(name string, data []byte, model *policy.Model) (*Result, error) {
	var t task
	if _, err := read(name, data, &t, taskFields); err != nil {
		return nil, err
	}
	p := &policy.Policy{
		Name: t.name, Mode: policy.Mode(t.mode), OnFailure: policy.FailClosed, Model: model,
		Setup: policy.PhasePolicy{Mode: policy.ModePublic}, Verifier: policy.PhasePolicy{Mode: policy.ModePublic},
		Environment: policy.Environment{Ask: t.env},
	}
	r := &Result{Policy: p}
	for _, s := range t.services {
		p.Services = append(p.Services, policy.Service{Name: s.name, Image: s.image, Ports: s.ports})
	}
	if err := t.lists(name, r); err != nil {
		return nil, err
	}
	if p.Mode.DefaultAllows() {
		r.note("Private, loopback, carrier-grade and link-local ranges are denied in every mode here; a task that relied on reaching one needs a cidr entry for it.")
	}
	if len(t.env) > 0 {
		r.note("The variables under environment.ask enter only when they are named on the command line.")
	}
	if p.Mode == policy.ModeAllowlist && len(p.Allow) == 0 && model != nil {
		r.note("The allowlist is empty: only the model and the task's services are reachable.")
	}
	return finish(name, r)
}

func (t *task) isService(name string) bool {
	return slices.ContainsFunc(t.services, func(s service) bool { return s.name == name })
}

// lists translates the lists that the mode takes, and refuses those that it
// would ignore.
func (t *task) lists(name string, r *Result) error {
	p := r.Policy
	if p.Mode != policy.ModeAllowlist && len(t.allowed) > 0 {
		return refuse(name, t.allowed[0].at, "network_mode %s has no allowed_hosts; what was meant?", t.mode)
	}
	if p.Mode != policy.ModeDenylist && len(t.blocked) > 0 {
		return refuse(name, t.blocked[0].at, "network_mode %s has no blocked_hosts; what was meant?", t.mode)
	}
	if p.Mode != policy.ModeDenylist && len(t.urls) > 0 {
		return refuse(name, t.urls[0].at, "network_mode %s has no blocked_urls; what was meant?", t.mode)
	}
	for _, h := range t.allowed {
		if !h.value.Subdomains && t.isService(h.value.Host.Name()) {
			r.note("%s is a service of the task and reachable without an entry.", h.value)
			continue
		}
		if h.value.Host.IsAddr() && host.Classify(h.value.Host.Addr()).Class != host.ClassPublic {
			r.note("The address %s is in a special range; the entry opens it, and only it.", h.value)
		}
		p.Allow = append(p.Allow, entry(h.value, policy.MatchExact, webPorts()))
	}
	for _, h := range t.blocked {
		p.Block = append(p.Block, entry(h.value, policy.MatchTree, nil))
	}
	for _, u := range t.urls {
		path, err := host.CleanPath(u.value.Path)
		if err != nil {
			return refuse(name, u.at, "%v", err)
		}
		e := entry(host.Pattern{Host: u.value.Host}, policy.MatchExact, nil)
		if path != "/" {
			e.Paths = []string{path}
		}
		if u.value.Port != host.DefaultPort(u.value.Scheme) {
			e.Ports = []policy.PortRange{{From: u.value.Port, To: u.value.Port}}
		}
		p.Block = append(p.Block, e)
	}
	if p.Mode == policy.ModeAllowlist && len(p.Allow) == 0 && p.Model == nil && len(t.services) == 0 {
		at := t.modeAt
		if t.allowAt != nil {
			at = pos(t.allowAt)
		}
		return refuse(name, at, "an empty allowlist reaches nothing; name hosts under allowed_hosts, or give the run a model, which it then admits")
	}
	return nil
}
