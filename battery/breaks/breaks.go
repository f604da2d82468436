//go:build breaks

// Package breaks reads seeded breaks: files that open exactly one hole in the
// boundary and name the techniques that must notice. It exists only in a binary
// built with the tag "breaks". docs/breaks.md has the format, every kind and its
// parameters; unknown keys, kinds and parameters are refused.
package breaks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/probes/catalog"
	"go.yaml.in/yaml/v3"
)

// Break is one seeded break.
type Break struct {
	Name     string         `yaml:"name"` // the file's name by default
	Kind     string         `yaml:"kind"`
	With     map[string]any `yaml:"with"`
	Policy   string         `yaml:"policy"`    // one of Policies; the demo's by default
	Driver   string         `yaml:"driver"`    // of battery/sandbox/drivers; the default one by default
	CaughtBy []string       `yaml:"caught-by"` // techniques that are run, of which at least one must notice
	Expect   string         `yaml:"expect"`    // ExpectEscaped by default
}

// What a break expects of the techniques that it names.
const (
	ExpectEscaped        = "escaped"
	ExpectNothingBlocked = "nothing-blocked"
	ExpectRefused        = "refused" // the run's own redaction proof refuses the packet
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
	case ExpectEscaped, ExpectNothingBlocked, ExpectRefused:
	default:
		return nil, fmt.Errorf("%s: expect: %q is none of %s, %s, %s", file, b.Expect, ExpectEscaped, ExpectNothingBlocked, ExpectRefused)
	}
	if len(b.CaughtBy) == 0 {
		return nil, fmt.Errorf("%s: caught-by names no technique", file)
	}
	for _, id := range b.CaughtBy {
		if _, ok := catalog.Lookup(id); !ok {
			return nil, fmt.Errorf("%s: caught-by: the catalogue has no technique %q", file, id)
		}
	}
	if err := b.place(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := b.Hooks(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &b, nil
}

// place checks where the break is tried, and fills in what is left out.
func (b *Break) place() error {
	if b.Policy == "" {
		b.Policy = DefaultPolicy
	}
	if _, err := b.Tested(); err != nil {
		return err
	}
	if b.Driver == "" {
		b.Driver = drivers.Default
	}
	if !slices.Contains(drivers.Names(), b.Driver) {
		return fmt.Errorf("driver: there is no driver %q; there are: %s", b.Driver, strings.Join(drivers.Names(), ", "))
	}
	return nil
}

// with reads the parameters into v; one that v does not have is refused. A single word
// is a list of one.
func (b *Break) with(v any) error {
	with := maps.Clone(b.With)
	for name, value := range with {
		if _, single := value.(string); single && isList(reflect.TypeOf(v).Elem(), name) {
			with[name] = []any{value}
		}
	}
	raw, err := json.Marshal(with)
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

// isList reports whether a parameter of this name is a list.
func isList(t reflect.Type, name string) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type.Kind() == reflect.Slice
		}
	}
	return false
}
