// Package importer translates the network rules of two other kinds of platform
// into policies: a vault document (named secrets, injection rules of which the
// first match wins, hosts to allow and block) and a task file (network_mode with
// its lists). What cannot be said the same way is refused, and never weakened;
// what comes out stricter than it went in is noted. docs/formats/policy.md
// specifies both forms.
package importer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// Result is a translated policy.
type Result struct {
	Policy *policy.Policy
	Notes  []string // what is stricter than before, or has to be done by hand
}

// Document writes the policy as YAML, with the notes as comments in front. It
// reads back to the same policy.
func (r *Result) Document() []byte {
	var b strings.Builder
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	b.Write(r.Policy.Format())
	return []byte(b.String())
}

// Bounds on an imported document.
const (
	maxBytes = 8 << 20
	maxList  = 100_000
)

var limits = strict.Limits{Bytes: maxBytes, Depth: 10, Nodes: 2_000_000, Scalar: policy.MaxText}

// decoder reads either kind of document.
type decoder struct{ strict.Decoder }

type field[T any] = strict.Field[*decoder, T]

func must[T any](name string, set func(*decoder, *strict.Node, *T) *strict.Error) field[T] {
	return field[T]{Name: name, Required: true, Set: set}
}

func may[T any](name string, set func(*decoder, *strict.Node, *T) *strict.Error) field[T] {
	return field[T]{Name: name, Set: set}
}

// read decodes a document by a table.
func read[T any](name string, data []byte, t *T, table []field[T]) (*decoder, error) {
	root, err := strict.Read(strict.FormatOf(name, data), data, limits)
	if err != nil {
		return nil, positioned(name, err)
	}
	d := &decoder{}
	if _, err := strict.DecodeMap(d, root, t, table); err != nil {
		return nil, positioned(name, err)
	}
	return d, nil
}

func positioned(name string, e *strict.Error) error {
	return &policy.Error{File: name, Line: e.Line, Column: e.Column, Field: e.Field, Message: e.Message}
}

func pos(n *strict.Node) policy.Pos { return policy.Pos{Line: int(n.Line), Column: int(n.Column)} }

// refuse returns an error about a place in the imported document.
func refuse(name string, at policy.Pos, format string, args ...any) error {
	return &policy.Error{File: name, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)}
}

// finish checks a translated policy as if it had been written by hand.
func finish(name string, r *Result) (*Result, error) {
	p, err := policy.Parse(name+" (translated)", r.Policy.Format())
	if err != nil {
		return nil, fmt.Errorf("the translation of %s is not a policy: %w", name, err)
	}
	if _, err := policy.Compile(p); err != nil {
		return nil, fmt.Errorf("the translation of %s cannot be enforced: %w", name, err)
	}
	r.Policy = p
	return r, nil
}

// anyHost reads a host, "*." and a name, or "*".
func anyHost(d *decoder, n *strict.Node) (hostPattern, *strict.Error) {
	s, err := d.Text(n)
	if err != nil {
		return hostPattern{}, err
	}
	if s == "*" {
		return hostPattern{every: true}, nil
	}
	p, perr := host.ParsePattern(s)
	if perr != nil {
		return hostPattern{}, d.Fail(n, "%.64q: %v", s, perr)
	}
	return hostPattern{Pattern: p}, nil
}

// hostPattern is a pattern, or every host.
type hostPattern struct {
	host.Pattern
	every bool
}

func (p hostPattern) String() string {
	if p.every {
		return "*"
	}
	return p.Pattern.String()
}

// covers reports whether every host of q is one of p.
func (p hostPattern) covers(q hostPattern) bool {
	switch {
	case p.every:
		return true
	case q.every:
		return false
	case !p.Subdomains:
		return !q.Subdomains && p.Host == q.Host
	}
	return strings.HasSuffix(q.Host.Name(), "."+p.Host.Name()) || q.Subdomains && p.Host == q.Host
}

// webPorts are the ports that both kinds of platform mean when they name a host.
func webPorts() []policy.PortRange {
	return []policy.PortRange{{From: 80, To: 80}, {From: 443, To: 443}}
}

// entry makes an entry for a pattern.
func entry(p host.Pattern, exact policy.Match, ports []policy.PortRange) policy.Entry {
	e := policy.Entry{Match: exact, Host: p.Host.Name(), Ports: ports}
	switch {
	case p.Host.IsAddr():
		e.Match, e.Host = policy.MatchCIDR, ""
		e.Prefix, _ = p.Host.Addr().Prefix(p.Host.Addr().BitLen())
	case p.Subdomains:
		e.Match = policy.MatchSubdomains
	}
	return e
}

// note adds a sentence once.
func (r *Result) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, s) {
		r.Notes = append(r.Notes, s)
	}
}
