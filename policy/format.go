package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy/host"
)

// Format writes the policy as a YAML document that Parse reads back to the same
// policy, packs as packs. Comments of the document that it was read from are lost.
func (p *Policy) Format() []byte {
	w := &yamlWriter{}
	w.line("version: %d", Version)
	w.text("name", p.Name)
	w.line("mode: %s", p.Mode)
	if p.OnFailure == FailWarn {
		w.line("on-failure: %s", p.OnFailure)
	}
	w.network(PhasePolicy{Packs: p.Packs, Allow: p.Allow, Block: p.Block})
	w.list("secrets", len(p.Secrets), func(i int) { w.secret(&p.Secrets[i]) })
	w.list("broker", len(p.Broker), func(i int) { w.broker(&p.Broker[i]) })
	if p.Model != nil {
		w.nested("model", func() { w.model(p.Model) })
	}
	w.environment(&p.Environment)
	w.list("services", len(p.Services), func(i int) { w.service(&p.Services[i]) })
	w.phases(p)
	w.limits(p.Limits)
	if p.Lingering.For > 0 {
		w.line("lingering: {for: %s, idle: %s}", duration(p.Lingering.For), duration(p.Lingering.Idle))
	}
	if p.Egress != nil {
		w.nested("egress", func() {
			w.text("agent", p.Egress.Address)
			w.source("server-ca", p.Egress.ServerCA)
			w.source("client-cert", p.Egress.ClientCert)
			w.source("client-key", p.Egress.ClientKey)
		})
	}
	return []byte(w.b.String())
}

// FormatEntry writes one entry as an element of an allow or block list, without
// the dash: "{host: github.com, methods: [GET]}".
func FormatEntry(e *Entry, allow bool) string {
	var parts []string
	switch e.Match {
	case MatchCIDR:
		parts = append(parts, "cidr: "+scalar(e.Prefix.String()))
	default:
		parts = append(parts, "host: "+scalar(e.Subject()))
		if e.Match == MatchExact && !allow {
			parts = append(parts, "exact: true")
		}
	}
	if s := portList(e.Ports, allow); s != "" {
		parts = append(parts, "ports: "+s)
	}
	if e.Methods != nil {
		parts = append(parts, "methods: "+flow(e.Methods))
	}
	if e.Paths != nil {
		var paths []string
		for _, p := range e.Paths {
			paths = append(paths, host.EncodePath(p))
		}
		parts = append(parts, "paths: "+flow(paths))
	}
	if e.Pin != nil {
		parts = append(parts, "pin: "+e.Pin.format())
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (p *Pin) format() string {
	var parts []string
	// A loaded lockfile's digests are among Digests; they are written out only
	// where there is no lockfile to read them from.
	if p.Digests != nil && !p.loaded {
		parts = append(parts, "digests: "+flow(p.Digests))
	}
	if p.Lockfile != "" {
		parts = append(parts, "lockfile: "+scalar(p.Lockfile))
	}
	if p.Artefacts != nil {
		parts = append(parts, "artefacts: "+flow(p.Artefacts))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// yamlWriter writes block style at an indentation.
type yamlWriter struct {
	b      strings.Builder
	indent string
	dash   bool // the next line begins a list element
}

func (w *yamlWriter) line(format string, args ...any) {
	lead := w.indent
	if w.dash {
		lead = w.indent[:len(w.indent)-2] + "- "
		w.dash = false
	}
	w.b.WriteString(lead)
	fmt.Fprintf(&w.b, format, args...)
	w.b.WriteByte('\n')
}

func (w *yamlWriter) text(key, value string) {
	if value != "" {
		w.line("%s: %s", key, scalar(value))
	}
}

func (w *yamlWriter) number(key string, v int64) {
	if v != 0 {
		w.line("%s: %d", key, v)
	}
}

func (w *yamlWriter) nested(key string, body func()) {
	w.line("%s:", key)
	w.indent += "  "
	body()
	w.indent = w.indent[:len(w.indent)-2]
}

func (w *yamlWriter) list(key string, n int, element func(i int)) {
	if n == 0 {
		return
	}
	w.line("%s:", key)
	w.indent += "    "
	for i := range n {
		w.dash = true
		element(i)
	}
	w.indent = w.indent[:len(w.indent)-4]
}

func (w *yamlWriter) network(pp PhasePolicy) {
	w.list("packs", len(pp.Packs), func(i int) {
		if ref := pp.Packs[i]; ref.Pin != nil {
			w.line("{name: %s, pin: %s}", ref.Name, ref.Pin.format())
		} else {
			w.line("%s", ref.Name)
		}
	})
	w.list("allow", len(pp.Allow), func(i int) { w.line("%s", FormatEntry(&pp.Allow[i], true)) })
	w.list("block", len(pp.Block), func(i int) { w.line("%s", FormatEntry(&pp.Block[i], false)) })
}

func (w *yamlWriter) phases(p *Policy) {
	write := func(name Phase, pp PhasePolicy) {
		if pp.Mode == ModePublic && len(pp.Allow)+len(pp.Packs) == 0 {
			return
		}
		w.nested(string(name), func() {
			w.line("mode: %s", pp.Mode)
			w.network(pp)
		})
	}
	if simple := func(pp PhasePolicy) bool { return pp.Mode == ModePublic && len(pp.Allow)+len(pp.Packs) == 0 }; simple(p.Setup) && simple(p.Verifier) {
		return
	}
	w.nested("phases", func() {
		write(PhaseSetup, p.Setup)
		write(PhaseVerifier, p.Verifier)
	})
}

func (w *yamlWriter) secret(s *Secret) {
	w.line("name: %s", scalar(s.Name))
	w.source("from", s.From)
	w.text("placeholder", s.Placeholder)
	w.list("inject", len(s.Inject), func(i int) { w.rule(&s.Inject[i], s.Name) })
}

func (w *yamlWriter) rule(r *Rule, owner string) {
	name := r.Host
	if r.Match == MatchSubdomains {
		name = "*." + name
	}
	w.line("host: %s", scalar(name))
	if s := portList(r.Ports, true); s != "" {
		w.line("ports: %s", s)
	}
	if r.Path != "/" {
		w.line("paths: %s", flow([]string{host.EncodePath(r.Path)}))
	}
	if r.ReplaceOnly {
		w.line("replace-only: true")
	}
	if r.Cleartext {
		w.line("cleartext: true")
	}
	if len(r.Set) == 1 && r.Set[0].Secret == owner {
		for _, part := range r.Set[0].parts() {
			w.line("%s", part)
		}
		return
	}
	w.list("set", len(r.Set), func(i int) {
		w.line("{%s}", strings.Join(append([]string{"secret: " + scalar(r.Set[i].Secret)}, r.Set[i].parts()...), ", "))
	})
}

// parts returns the keys of a setting, without the secret.
func (s *Setting) parts() []string {
	out := []string{"as: " + string(s.As)}
	if s.As == InjectHeader {
		out = append(out, "header: "+scalar(s.Header))
	}
	for _, kv := range [][2]string{{"prefix", s.Prefix}, {"username", s.Username}, {"param", s.Param}} {
		if kv[1] != "" {
			out = append(out, kv[0]+": "+scalar(kv[1]))
		}
	}
	return out
}

func (w *yamlWriter) source(key string, s Source) {
	if kind := s.Kind(); kind != "" {
		w.line("%s: {%s: %s}", key, kind, s.value())
	}
}

func (s Source) value() string {
	pairs := func(kv ...string) string {
		var parts []string
		for i := 0; i < len(kv); i += 2 {
			if kv[i+1] != "" {
				parts = append(parts, kv[i]+": "+scalar(kv[i+1]))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	switch {
	case s.Env != "":
		return scalar(s.Env)
	case s.File != "":
		return scalar(s.File)
	case s.GCP != "":
		return scalar(s.GCP)
	case s.AWS != nil:
		return pairs("id", s.AWS.ID, "region", s.AWS.Region, "field", s.AWS.Field, "version", s.AWS.Version)
	case s.Azure != nil:
		return pairs("vault", s.Azure.Vault, "secret", s.Azure.Secret, "version", s.Azure.Version)
	}
	v := s.Vault
	text := strings.TrimSuffix(pairs("address", v.Address, "namespace", v.Namespace, "mount", v.Mount, "path", v.Path, "field", v.Field), "}")
	if v.Version != 0 {
		text += fmt.Sprintf(", version: %d", v.Version)
	}
	if v.Engine != 2 {
		text += fmt.Sprintf(", engine: %d", v.Engine)
	}
	return text + "}"
}

func (w *yamlWriter) broker(b *Broker) {
	w.line("name: %s", scalar(b.Name))
	w.text("host", b.Host)
	if b.Port != 443 {
		w.number("port", int64(b.Port))
	}
	w.text("api", b.API)
	w.text("app", b.App)
	w.number("installation", b.Installation)
	w.source("key", b.Key)
	w.line("lease: %s", duration(b.Lease))
	w.list("repositories", len(b.Repositories), func(i int) {
		w.line("name: %s", scalar(b.Repositories[i].Name))
		if b.Repositories[i].Push != nil {
			w.line("push: %s", flow(b.Repositories[i].Push))
		}
	})
}

func (w *yamlWriter) model(m *Model) {
	w.text("api", m.API)
	w.text("url", m.URL)
	if strings.HasPrefix(m.URL, "http:") {
		w.line("cleartext: true")
	}
	w.text("secret", m.Secret)
	w.line("allow: %s", flow(m.Allow))
	w.text("hosted-search", m.HostedSearch)
	if m.SelfSearch != nil {
		w.line("self-search: %s", flow(m.SelfSearch))
	}
}

func (w *yamlWriter) environment(e *Environment) {
	if e.Set == nil && e.Pass == nil && e.Ask == nil && e.Login == nil {
		return
	}
	w.nested("environment", func() {
		w.variables(e.Set)
		if e.Pass != nil {
			w.line("pass: %s", flow(e.Pass))
		}
		if e.Ask != nil {
			w.line("ask: %s", flow(e.Ask))
		}
		if e.Login != nil {
			w.nested("login", func() {
				w.text("agent", e.Login.Agent)
				w.text("path", e.Login.Path)
				w.source("from", e.Login.From)
			})
		}
	})
}

func (w *yamlWriter) variables(set []Variable) {
	if len(set) == 0 {
		return
	}
	w.nested("set", func() {
		for _, v := range set {
			w.line("%s: %s", v.Name, strconv.Quote(v.Value))
		}
	})
}

func (w *yamlWriter) service(s *Service) {
	w.line("name: %s", scalar(s.Name))
	w.text("image", s.Image)
	var ports []PortRange
	for _, p := range s.Ports {
		ports = append(ports, PortRange{p, p})
	}
	w.line("ports: %s", portList(ports, false))
	w.variables(s.Set)
}

func (w *yamlWriter) limits(l Limits) {
	if l == (Limits{}) {
		return
	}
	w.nested("limits", func() {
		if l.Duration > 0 {
			w.line("duration: %s", duration(l.Duration))
		}
		w.number("connections", l.Connections)
		w.number("requests", l.Requests)
		w.number("upload", l.Upload)
		w.number("download", l.Download)
		w.number("memory", l.Memory)
		w.number("processes", l.Processes)
		w.number("disk", l.Disk)
	})
}

// portList writes ports, or "" for those that an entry has without saying.
func portList(ports []PortRange, allow bool) string {
	if ports == nil || allow && len(ports) == 1 && ports[0] == httpsOnly[0] {
		return ""
	}
	var out []string
	for _, r := range ports {
		if r.From == r.To {
			out = append(out, r.String())
		} else {
			out = append(out, strconv.Quote(r.String()))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func flow(words []string) string {
	out := make([]string, len(words))
	for i, s := range words {
		out[i] = scalar(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// scalar writes a text, in quotes unless it is plainly one: a letter, then
// letters, digits and a few marks, and none of the words that YAML reads as
// something else.
func scalar(s string) string {
	plain := s != "" && alphanumeric(s[0]) && (s[0] < '0' || s[0] > '9')
	for i := 0; i < len(s) && plain; i++ {
		plain = alphanumeric(s[i]) || strings.IndexByte("_.-/", s[i]) >= 0
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		plain = false
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// duration writes a time in the largest unit that it is a whole number of.
func duration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		mark string
	}{{time.Hour, "h"}, {time.Minute, "m"}} {
		if d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.mark
		}
	}
	return seconds(d)
}
