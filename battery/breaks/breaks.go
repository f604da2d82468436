//go:build breaks

// Package breaks reads seeded breaks: files that open exactly one hole in the
// boundary and name the techniques that must notice. It exists only in a binary
// built with the tag "breaks".
//
// # Format
//
// One YAML document a file:
//
//	name: filter-private-range           # of the break; the file's name by default
//	kind: filter-accept                  # what is broken, see below
//	with: {cidr: 10.0.0.0/8}             # its parameters
//	caught-by: [LAT-10]                  # techniques that are run, of which at least one must notice
//	expect: escaped                      # how it notices: "escaped" (default), or "nothing-blocked": the
//	                                     # break makes everything unreachable, so no technique of any kind
//	                                     # may be called blocked
//
// Kinds and their parameters:
//
//	filter-accept       cidr, proto (tcp|udp|icmp|icmpv6), ports ([{first, last}]), chain (forward|input|guard)
//	filter-skip-ipv6    IPv6 is forwarded unfiltered
//	filter-no-redirect  nothing is led to the proxy
//	filter-drop         refusals are silent
//	filter-late         milliseconds until the filter is loaded
//	filter-changed      after (milliseconds), and the parameters of filter-accept
//	network-dead        the sandboxes' links are down
//	environment-leak    variable, secret (name in the policy): its value is left in the environment
//	proxy               one switch of the proxy by its name, with its value: noRedaction: true
//
// Unknown keys, kinds and parameters are refused.
package breaks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/catalog"
	"go.yaml.in/yaml/v3"
)

// Break is one seeded break.
type Break struct {
	Name     string         `yaml:"name"`
	Kind     string         `yaml:"kind"`
	With     map[string]any `yaml:"with"`
	CaughtBy []string       `yaml:"caught-by"`
	Expect   string         `yaml:"expect"`
}

// What a break expects of the techniques that it names.
const (
	ExpectEscaped        = "escaped"
	ExpectNothingBlocked = "nothing-blocked"
)

// MaxBytes bounds a break's file.
const MaxBytes = 64 << 10

// Parse reads one break. file is for messages and gives the default name.
func Parse(file string, data []byte) (*Break, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", file, MaxBytes)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var b Break
	if err := dec.Decode(&b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one document", file)
	}
	if b.Name == "" {
		b.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	switch b.Expect {
	case "":
		b.Expect = ExpectEscaped
	case ExpectEscaped, ExpectNothingBlocked:
	default:
		return nil, fmt.Errorf("%s: expect: %q is neither %s nor %s", file, b.Expect, ExpectEscaped, ExpectNothingBlocked)
	}
	if len(b.CaughtBy) == 0 {
		return nil, fmt.Errorf("%s: caught-by names no technique", file)
	}
	for _, id := range b.CaughtBy {
		if _, ok := catalog.Lookup(id); !ok {
			return nil, fmt.Errorf("%s: caught-by: the catalogue has no technique %q", file, id)
		}
	}
	if _, err := b.Hooks(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &b, nil
}

// with reads the parameters into v; one that v does not have is refused.
func (b *Break) with(v any) error {
	raw, err := json.Marshal(b.With)
	if err != nil {
		return fmt.Errorf("read the parameters of %s: %w", b.Kind, err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("read the parameters of %s: %w", b.Kind, err)
	}
	return nil
}

// Hooks is what the battery breaks.
func (b *Break) Hooks() (h battery.Breaks, err error) {
	switch b.Kind {
	case "filter-accept":
		var rule boundary.AcceptRule
		err = b.with(&rule)
		h.Boundary.Accept = []boundary.AcceptRule{rule}
	case "filter-skip-ipv6":
		err = b.with(&struct{}{})
		h.Boundary.SkipIPv6 = true
	case "filter-no-redirect":
		err = b.with(&struct{}{})
		h.Boundary.NoRedirect = true
	case "filter-drop":
		err = b.with(&struct{}{})
		h.Boundary.RejectAsDrop = true
	case "filter-late":
		var p struct {
			Milliseconds int `json:"milliseconds"`
		}
		err = b.with(&p)
		h.Boundary.LateFilterMs = p.Milliseconds
	case "filter-changed":
		var p struct {
			After int `json:"after"`
			boundary.AcceptRule
		}
		err = b.with(&p)
		h.Boundary.MidRun = &boundary.MidRun{AfterMs: p.After, Accept: p.AcceptRule}
	case "network-dead":
		err = b.with(&struct{}{})
		h.Boundary.Dead = true
	case "environment-leak":
		var p struct {
			Variable string `json:"variable"`
			Secret   string `json:"secret"`
		}
		if err = b.with(&p); err == nil && (p.Variable == "" || p.Secret == "") {
			err = errors.New("environment-leak needs variable and secret")
		}
		h.LeakEnv = map[string]string{p.Variable: p.Secret}
	case "proxy":
		err = b.with(&h.Proxy)
		if err == nil && h.Proxy == (proxy.Breaks{}) {
			err = errors.New("proxy needs one switch")
		}
	default:
		err = fmt.Errorf("there is no kind %q", b.Kind)
	}
	return h, err
}
