package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
)

// ChangeKind says what a change is about.
type ChangeKind string

// The kinds of change.
const (
	Reachable   ChangeKind = "reachable"    // denied before, allowed now
	Unreachable ChangeKind = "unreachable"  // allowed before, denied now
	Injected    ChangeKind = "injected"     // gets a secret that it did not
	NotInjected ChangeKind = "not-injected" // gets none any more
	Changed     ChangeKind = "changed"      // anything else that the hash covers
)

// Change is one difference in what is reachable, injected, brokered, or let in.
type Change struct {
	Kind    ChangeKind   `json:"kind"`
	Phase   policy.Phase `json:"phase,omitempty"` // "" for what belongs to the whole policy
	Subject string       `json:"subject"`         // "github.com", "*.example.org", "hosts that no entry names", …
	Detail  string       `json:"detail"`          // "port 443, methods GET and HEAD, under /x"
	Before  string       `json:"before"`          // why, before
	After   string       `json:"after"`           // and now
}

// Diff tells what becomes reachable and unreachable from before to after, and
// what else changes. It asks both evaluators about a host, a port, a method and a
// path out of every set between which neither policy makes a difference, so that
// it misses nothing, however the same thing is written. No changes and equal
// hashes go together.
func Diff(before, after *policy.Policy) ([]Change, error) {
	a, err := policy.Compile(before)
	if err != nil {
		return nil, err
	}
	b, err := policy.Compile(after)
	if err != nil {
		return nil, err
	}
	if a.Digest() == b.Digest() {
		return nil, nil
	}
	var out []Change
	for _, phase := range phases {
		s := newSpace()
		s.add(before, phase)
		s.add(after, phase)
		d := differ{phase: phase, before: a.Phase(phase), after: b.Phase(phase)}
		for _, c := range s.cells() {
			d.cell(c)
		}
		out = append(out, d.out...)
		if x, y := a.Phase(phase).Routing(), b.Phase(phase).Routing(); x.Routing != y.Routing {
			out = append(out, Change{Changed, phase, "routing", "a running proxy cannot change it", string(x.Routing), string(y.Routing)})
		}
	}
	rest, err := diffDocuments(before, after)
	if err != nil {
		return nil, err
	}
	out = append(out, rest...)
	if len(out) == 0 {
		out = append(out, Change{Changed, "", "entries", "written differently; every decision is the same", a.Digest(), b.Digest()})
	}
	return out, nil
}

type differ struct {
	phase         policy.Phase
	before, after *policy.Evaluator
	out           []Change
}

// outcome is what one evaluator says of one request.
type outcome struct {
	verdict policy.Verdict
	why     string
	secrets string // how secrets are injected, "" for not at all
	pin     string
}

// difference is what changes for a request, without the request.
type difference struct {
	kind          ChangeKind
	before, after string
}

// spot is a request of a cell.
type spot struct {
	port   uint16
	method string
	path   string
}

func (d *differ) cell(c cell) {
	if c.answers {
		d.answers(c)
		return
	}
	found := map[difference]map[string]map[string][]uint16{} // path → method → ports
	var order []difference
	for _, path := range c.paths {
		for _, method := range c.methods {
			for _, port := range c.ports {
				for _, diff := range d.request(c, spot{port, method, path}) {
					if found[diff] == nil {
						found[diff] = map[string]map[string][]uint16{}
						order = append(order, diff)
					}
					if found[diff][path] == nil {
						found[diff][path] = map[string][]uint16{}
					}
					found[diff][path][method] = append(found[diff][path][method], port)
				}
			}
		}
	}
	for _, diff := range order {
		for _, detail := range details(c, found[diff]) {
			d.out = append(d.out, Change{diff.kind, d.phase, c.subject, detail, diff.before, diff.after})
		}
	}
}

func (d *differ) request(c cell, s spot) []difference {
	a, b := ask(d.before, c, s), ask(d.after, c, s)
	switch {
	case a.verdict != b.verdict && b.verdict == policy.Allow:
		out := []difference{{Reachable, a.why, b.why}}
		if b.secrets != "" {
			out = append(out, difference{Injected, "", b.secrets})
		}
		return out
	case a.verdict != b.verdict:
		return []difference{{Unreachable, a.why, b.why}}
	case a.verdict == policy.Deny:
		return nil
	}
	var out []difference
	switch {
	case a.secrets == b.secrets:
	case a.secrets == "":
		out = append(out, difference{Injected, "", b.secrets})
	case b.secrets == "":
		out = append(out, difference{NotInjected, a.secrets, ""})
	default:
		out = append(out, difference{Changed, a.secrets, b.secrets})
	}
	if a.pin != b.pin {
		out = append(out, difference{Changed, a.pin, b.pin})
	}
	return out
}

func ask(e *policy.Evaluator, c cell, s spot) outcome {
	r := policy.Request{Scheme: "https", Host: c.host, Port: s.port, Method: s.method, Path: host.EncodePath(s.path)}
	d := e.Request(r)
	o := outcome{verdict: d.Verdict, why: why(d), pin: pins(d.Pin)}
	if d.Allowed() {
		o.secrets = injection(e.Injection(r))
		r.Scheme = "http"
		if clear := injection(e.Injection(r)); clear != "" {
			o.secrets += ", in clear too"
		}
	}
	return o
}

func why(d policy.Decision) string {
	s := string(d.Reason)
	if d.Entry != "" {
		s += " " + d.Entry
	}
	if d.Line > 0 {
		s += fmt.Sprintf(" (line %d)", d.Line)
	}
	return s
}

func pins(p *policy.Pin) string {
	if p == nil {
		return "not pinned"
	}
	what := "every response"
	if len(p.Artefacts) > 0 {
		what = strings.Join(p.Artefacts, " ")
	}
	return fmt.Sprintf("%s among %d artefacts %s", what, len(p.Digests), fingerprint(p.Digests))
}

// fingerprint tells two lists apart in a message.
func fingerprint(list []string) string {
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	return fmt.Sprintf("[%x]", sum[:4])
}

func injection(r *policy.Rule) string {
	if r == nil {
		return ""
	}
	var parts []string
	for _, s := range r.Set {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s as %s %s%s%s%s", s.Secret, s.As, s.Header, s.Param, s.Username, s.Prefix)))
	}
	text := strings.Join(parts, " and ")
	if r.ReplaceOnly {
		text += ", replaced only"
	}
	return text
}

// answers compares the second gate: may a name be dialled at the cell's address?
func (d *differ) answers(c cell) {
	found := map[difference][]uint16{}
	var order []difference
	for _, port := range c.ports {
		a, b := d.before.Address(c.host, port, c.addr), d.after.Address(c.host, port, c.addr)
		if a.Verdict == b.Verdict {
			continue
		}
		diff := difference{Unreachable, why(a), why(b)}
		if b.Allowed() {
			diff.kind = Reachable
		}
		if found[diff] == nil {
			order = append(order, diff)
		}
		found[diff] = append(found[diff], port)
	}
	for _, diff := range order {
		d.out = append(d.out, Change{diff.kind, d.phase, c.subject, portsDetail(c, found[diff]), diff.before, diff.after})
	}
}

// details writes for which requests of a cell a difference holds: one line for
// all paths and methods that share their ports.
func details(c cell, byPath map[string]map[string][]uint16) []string {
	lines := map[string][]string{} // ports and methods → paths
	var order []string
	for _, path := range c.paths {
		byMethod := byPath[path]
		byPorts := map[string][]string{}
		var ports []string
		for _, method := range c.methods {
			if byMethod[method] == nil {
				continue
			}
			p := portsDetail(c, byMethod[method])
			if byPorts[p] == nil {
				ports = append(ports, p)
			}
			byPorts[p] = append(byPorts[p], method)
		}
		for _, p := range ports {
			key := p + methodsDetail(c, byPorts[p])
			if lines[key] == nil {
				order = append(order, key)
			}
			lines[key] = append(lines[key], path)
		}
	}
	var out []string
	for _, key := range order {
		switch paths := lines[key]; {
		case len(c.paths) == len(paths):
			out = append(out, key)
		case slices.Equal(paths, []string{"/"}):
			out = append(out, key+", paths that no entry names")
		default:
			out = append(out, key+", under "+strings.Join(paths, ", "))
		}
	}
	return out
}

// portsDetail writes the stretches of ports that begin at the given
// representatives.
func portsDetail(c cell, starts []uint16) string {
	var parts []string
	for i := 0; i < len(c.ports); i++ {
		if !slices.Contains(starts, c.ports[i]) {
			continue
		}
		from := c.ports[i]
		for i+1 < len(c.ports) && slices.Contains(starts, c.ports[i+1]) {
			i++
		}
		to := uint16(65535)
		if i+1 < len(c.ports) {
			to = c.ports[i+1] - 1
		}
		parts = append(parts, policy.PortRange{From: from, To: to}.String())
	}
	switch {
	case len(parts) == 1 && parts[0] == "1-65535":
		return "every port"
	case len(parts) == 1 && !strings.Contains(parts[0], "-"):
		return "port " + parts[0]
	}
	return "ports " + strings.Join(parts, ", ")
}

func methodsDetail(c cell, methods []string) string {
	switch {
	case len(methods) == len(c.methods):
		return ""
	case slices.Contains(methods, otherMethod):
		var not []string
		for _, m := range c.methods {
			if !slices.Contains(methods, m) {
				not = append(not, m)
			}
		}
		return ", methods other than " + strings.Join(not, ", ")
	}
	return ", methods " + strings.Join(methods, ", ")
}

// diffDocuments compares the parts of the canonical forms that are no entries.
func diffDocuments(before, after *policy.Policy) ([]Change, error) {
	var docs [2]map[string]json.RawMessage
	for i, p := range []*policy.Policy{before, after} {
		data, err := p.Canonical()
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &docs[i]); err != nil {
			return nil, fmt.Errorf("policy: read a canonical form: %w", err)
		}
	}
	var out []Change
	for _, key := range []string{"mode", "on-failure", "broker", "model", "environment", "services", "limits", "lingering", "egress"} {
		a, b := docs[0][key], docs[1][key]
		if !bytes.Equal(a, b) {
			out = append(out, Change{Changed, "", key, "", text(a), text(b)})
		}
	}
	return append(out, diffPlaceholders(before, after)...), nil
}

func text(raw json.RawMessage) string {
	if raw == nil {
		return "none"
	}
	return string(raw)
}

// diffPlaceholders compares what is no injection of its own: which secrets
// there are, and what stands in for them.
func diffPlaceholders(before, after *policy.Policy) []Change {
	secrets := func(p *policy.Policy) map[string]string {
		out := map[string]string{}
		for _, s := range p.Secrets {
			out[s.Name] = "placeholder of the run's own"
			if s.Placeholder != "" {
				out[s.Name] = "placeholder " + s.Placeholder
			}
		}
		return out
	}
	a, b := secrets(before), secrets(after)
	var names []string
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Change
	for _, name := range names {
		x, y := a[name], b[name]
		if x == "" {
			x = "none"
		}
		if y == "" {
			y = "none"
		}
		if x != y {
			out = append(out, Change{Changed, "", "secret " + name, "", x, y})
		}
	}
	return out
}
