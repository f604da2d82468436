package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/internal/strict"
	"github.com/wallproof/wallproof/policy/pack"
)

// schema is the part of JSON Schema (2020-12) that the file for editors uses.
type schema struct {
	Ref                  string             `json:"$ref"`
	Defs                 map[string]*schema `json:"$defs"`
	Type                 string             `json:"type"`
	Const                any                `json:"const"`
	Enum                 []any              `json:"enum"`
	Pattern              string             `json:"pattern"`
	MinLength            int                `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
	Items                *schema            `json:"items"`
	MinItems             int                `json:"minItems"`
	MaxItems             *int               `json:"maxItems"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	AdditionalProperties any                `json:"additionalProperties"`
	PropertyNames        *schema            `json:"propertyNames"`
	MinProperties        int                `json:"minProperties"`
	MaxProperties        *int               `json:"maxProperties"`
	AnyOf                []*schema          `json:"anyOf"`
	OneOf                []*schema          `json:"oneOf"`
	Not                  *schema            `json:"not"`
	Title                string             `json:"title"`
	Description          string             `json:"description"`
	Schema               string             `json:"$schema"`
	ID                   string             `json:"$id"`
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	f, err := os.Open("../docs/formats/policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields() // a keyword that is not checked here would check nothing
	var s schema
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// validate returns why a value does not fit, or "".
func (root *schema) validate(s *schema, v any, at string) string {
	if s.Ref != "" {
		def := root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
		if def == nil {
			return "no definition " + s.Ref
		}
		return root.validate(def, v, at)
	}
	for _, check := range []func(*schema, any, string) string{root.scalar, root.array, root.object, root.combined} {
		if why := check(s, v, at); why != "" {
			return why
		}
	}
	return ""
}

func (root *schema) scalar(s *schema, v any, at string) string {
	types := map[string]bool{}
	switch v := v.(type) {
	case string:
		types["string"] = true
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
			return at + " does not match " + s.Pattern
		}
		if len(v) < s.MinLength || s.MaxLength != nil && len(v) > *s.MaxLength {
			return at + " has a wrong length"
		}
	case float64:
		types["integer"] = v == math.Trunc(v)
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			return at + " is out of range"
		}
	case bool:
		types["boolean"] = true
	case []any:
		types["array"] = true
	case map[string]any:
		types["object"] = true
	}
	switch {
	case s.Type != "" && !types[s.Type]:
		return at + " is no " + s.Type
	case s.Const != nil && v != s.Const:
		return fmt.Sprintf("%s is not %v", at, s.Const)
	case s.Enum != nil && !slices.Contains(s.Enum, v):
		return at + " is not one of the words"
	}
	return ""
}

func (root *schema) array(s *schema, v any, at string) string {
	list, ok := v.([]any)
	if !ok {
		return ""
	}
	if len(list) < s.MinItems || s.MaxItems != nil && len(list) > *s.MaxItems {
		return at + " has a wrong number of elements"
	}
	for i, x := range list {
		if s.Items != nil {
			if why := root.validate(s.Items, x, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	}
	return ""
}

func (root *schema) object(s *schema, v any, at string) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if len(m) < s.MinProperties || s.MaxProperties != nil && len(m) > *s.MaxProperties {
		return at + " has a wrong number of keys"
	}
	for _, r := range s.Required {
		if _, ok := m[r]; !ok {
			return at + " has no " + r
		}
	}
	for k, x := range m {
		if s.PropertyNames != nil {
			if why := root.validate(s.PropertyNames, k, at+"."+k); why != "" {
				return why
			}
		}
		if p := s.Properties[k]; p != nil {
			if why := root.validate(p, x, at+"."+k); why != "" {
				return why
			}
			continue
		}
		switch extra := s.AdditionalProperties.(type) {
		case bool:
			if !extra {
				return at + " has the unknown key " + k
			}
		case map[string]any:
			raw, _ := json.Marshal(extra)
			var sub schema
			if err := json.Unmarshal(raw, &sub); err != nil {
				return err.Error()
			}
			if why := root.validate(&sub, x, at+"."+k); why != "" {
				return why
			}
		}
	}
	return ""
}

func (root *schema) combined(s *schema, v any, at string) string {
	count := func(list []*schema) int {
		n := 0
		for _, x := range list {
			if root.validate(x, v, at) == "" {
				n++
			}
		}
		return n
	}
	switch {
	case s.AnyOf != nil && count(s.AnyOf) == 0:
		return at + " fits none of the forms"
	case s.OneOf != nil && count(s.OneOf) != 1:
		return at + " does not fit exactly one of the forms"
	case s.Not != nil && root.validate(s.Not, v, at) == "":
		return at + " has what it must not have"
	}
	return ""
}

// plainValue turns a tree into what encoding/json would give.
func plainValue(n *strict.Node) any {
	switch n.Kind {
	case strict.Map:
		out := map[string]any{}
		for i := range n.Members {
			out[n.Members[i].Name] = plainValue(&n.Members[i].Value)
		}
		return out
	case strict.List:
		out := []any{}
		for i := range n.Items {
			out = append(out, plainValue(&n.Items[i]))
		}
		return out
	case strict.Int:
		var f float64
		_, _ = fmt.Sscan(n.Text, &f)
		return f
	case strict.Bool:
		return n.Text == "true"
	case strict.Null:
		return nil
	}
	return n.Text
}

// The schema has exactly the keys that the parser reads, with the same ones
// required, so the two cannot drift apart.
func TestSchemaHasTheParsersKeys(t *testing.T) {
	root := readSchema(t)
	sub := func(def string, path ...string) *schema {
		s := root.Defs[def]
		for _, p := range path {
			if s = s.Properties[p]; s.Items != nil {
				s = s.Items
			}
		}
		return s
	}
	exact := func(names []string, drop string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == drop })
	}
	required := func(s *schema, sourceToo ...string) []string {
		return slices.DeleteFunc(slices.Clone(s.Required), func(k string) bool { return slices.Contains(sourceToo, k) })
	}
	for _, c := range []struct {
		name     string
		schema   *schema
		keys     []string
		required []string
		sources  []string // keys that only a canonical form leaves out
	}{
		{"document", root, strict.NamesOf(documentFields()), requiredOf(documentFields()), nil},
		{"allow entry", sub("allowEntry"), exact(strict.NamesOf(entryFields), "exact"), requiredOf(entryFields), nil},
		{"block entry", sub("blockEntry"), exact(strict.NamesOf(entryFields), "pin"), requiredOf(entryFields), nil},
		{"pin", sub("pin"), strict.NamesOf(pinFields), requiredOf(pinFields), nil},
		{"pack", root.Defs["pack"].AnyOf[1], strict.NamesOf(packFields), requiredOf(packFields), nil},
		{"secret", sub("secret"), strict.NamesOf(secretFields()), requiredOf(secretFields()), []string{"from"}},
		{"source", sub("source"), strict.NamesOf(sourceFields), requiredOf(sourceFields), nil},
		{"vault", sub("source", "vault"), strict.NamesOf(vaultFields), requiredOf(vaultFields), nil},
		{"aws", sub("source", "aws"), strict.NamesOf(awsFields), requiredOf(awsFields), nil},
		{"azure", sub("source", "azure"), strict.NamesOf(azureFields), requiredOf(azureFields), nil},
		{"rule", sub("rule"), strict.NamesOf(ruleFields), requiredOf(ruleFields), nil},
		{"setting", sub("setting"), strict.NamesOf(settingFields), requiredOf(settingFields), []string{"as"}},
		{"broker", sub("broker"), strict.NamesOf(brokerFields()), requiredOf(brokerFields()), []string{"key"}},
		{"repository", sub("broker", "repositories"), strict.NamesOf(repositoryFields), requiredOf(repositoryFields), nil},
		{"model", sub("model"), strict.NamesOf(modelFields), requiredOf(modelFields), nil},
		{"environment", sub("environment"), strict.NamesOf(environmentFields), requiredOf(environmentFields), nil},
		{"login", sub("environment", "login"), strict.NamesOf(loginFields), requiredOf(loginFields), []string{"from"}},
		{"service", sub("service"), strict.NamesOf(serviceFields), requiredOf(serviceFields), nil},
		{"phases", root.Properties["phases"], exact(strict.NamesOf(phaseFields()), "agent"), requiredOf(phaseFields()), nil},
		{"phase", sub("phase"), strict.NamesOf(phasePolicyFields), requiredOf(phasePolicyFields), nil},
		{"limits", sub("limits"), strict.NamesOf(limitsFields), requiredOf(limitsFields), nil},
		{"lingering", sub("lingering"), strict.NamesOf(lingeringFields), requiredOf(lingeringFields), nil},
		{"egress", sub("egress"), strict.NamesOf(egressFields), requiredOf(egressFields), []string{"server-ca", "client-cert", "client-key"}},
	} {
		var keys []string
		for k := range c.schema.Properties {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		slices.Sort(c.keys)
		if !slices.Equal(keys, c.keys) {
			t.Errorf("%s: the schema has %v, the parser %v", c.name, keys, c.keys)
		}
		got := required(c.schema, c.sources...)
		slices.Sort(got)
		slices.Sort(c.required)
		if !slices.Equal(got, c.required) {
			t.Errorf("%s: the schema requires %v, the parser %v", c.name, got, c.required)
		}
		if c.schema.AdditionalProperties != false {
			t.Errorf("%s: other keys are let through", c.name)
		}
	}
	if packs := root.Defs["packName"].Enum; fmt.Sprint(packs) != fmt.Sprint(pack.Names()) {
		t.Errorf("packs: the schema has %v, the parser %v", packs, pack.Names())
	}
	if modes := root.Defs["mode"].Enum; fmt.Sprint(modes) != fmt.Sprint(Modes) {
		t.Errorf("modes: the schema has %v, the parser %v", modes, Modes)
	}
}

func requiredOf[T any](table []field[T]) []string {
	var out []string
	for _, f := range table {
		if f.Required {
			out = append(out, f.Name)
		}
	}
	return out
}

// What the parser accepts the schema accepts, and what it refuses for its form
// the schema refuses.
func TestSchemaAgreesWithParser(t *testing.T) {
	root := readSchema(t)
	check := func(name string, data []byte) string {
		n, err := strict.Read(strict.FormatOf(name, data), data, documentLimits)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return root.validate(root, plainValue(n), "document")
	}
	for _, glob := range []string{"testdata/policies/*", "testdata/formatted/*"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatal(glob, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if why := check(f, data); why != "" {
				t.Errorf("%s: %s", f, why)
			}
		}
	}
	for _, doc := range []string{
		"mode: x\n", "alow: []\nmode: public\n", "mode: public\nallow: [github.com]\n", "mode: public\nallow: [{host: a, cidr: b}]\n",
		"mode: public\nallow: [{ports: [1]}]\n", "mode: public\nallow: [{host: a.example, exact: true}]\n", "mode: public\nallow: [{host: 'www*.com'}]\n",
		"mode: public\nallow: [{url: 'https://a.example', ports: [1]}]\n", "mode: public\nblock: [{cidr: 10.0.0.0/8, exact: true}]\n",
		"mode: public\nallow: [{host: a.example, ports: []}]\n", "mode: public\nallow: [{host: a.example, ports: [0]}]\n", "mode: public\nallow: [{host: a.example, paths: [x]}]\n",
		"mode: public\npacks: [nmp]\n", "mode: public\nsecrets: [{name: S}]\n", "mode: public\nsecrets: [{name: S, from: x}]\n", "mode: public\nsecrets: [{name: S, from: {env: A, file: b}}]\n",
		"mode: public\nsecrets: [{name: S, from: {env: A}, inject: [{host: a.example}]}]\n", "mode: public\nsecrets: [{name: S, from: {env: A}, inject: [{host: a.example, as: bearer, set: [{as: bearer}]}]}]\n",
		"mode: public\nphases: {agent: {mode: public}}\n", "mode: public\nlimits: {upload: 1MB}\n", "mode: public\nenvironment: {set: {1A: x}}\n", "mode: public\nenvironment: {set: {A: 1}}\n",
		"mode: public\nmodel: {api: openai, url: 'https://m.example', allow: []}\n", "mode: public\nservices: [{name: db, image: 'p:1', ports: [1]}]\n", "mode: public\nname: 5\n",
	} {
		doc = "version: 1\n" + doc
		if _, err := Parse("p.yaml", []byte(doc)); err == nil {
			t.Errorf("the parser accepts\n%s", doc)
		}
		if why := check("p.yaml", []byte(doc)); why == "" {
			t.Errorf("the schema accepts\n%s", doc)
		}
	}
}
