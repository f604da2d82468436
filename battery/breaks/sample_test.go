//go:build breaks

package breaks

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy"
)

// parameters are those of each kind that has any of its own; the driver's and the
// proxy's are the fields of their types.
var parameters = map[string][]string{
	"filter-accept":    {"cidr", "proto", "ports", "chain"},
	"filter-late":      {"milliseconds"},
	"filter-changed":   {"after", "cidr", "proto"},
	"environment-leak": {"variable", "secret", "shape", "sandbox"},
	"leak":             {"file", "mode", "deleted-file", "memory", "process", "arguments", "environment", "socket", "segment", "queue", "pipe", "key", "text", "secret", "sandbox"},
	"mount":            {"target", "of", "file", "read-only"},
	"descriptor":       {"of"},
	"image":            {"file", "environment", "label", "history", "lower-file", "shape", "text"},
	"namespace":        {"share"},
	"random":           {"path"},
	"tenant":           {"accept-placeholder", "believe-header", "believe-authority"},
	"policy":           {"add", "set", "remove"},
	"segment":          {"with"},
	"over":             {"path"},
	"unredacted":       {"what"},
	"driver":           fieldsOf(sandbox.Breaks{}),
	"proxy":            fieldsOf(proxy.Breaks{}, "neighbour", "neighbourHeader"), // those are of the kind tenant
}

// fieldsOf lists the names of a type's members in JSON.
func fieldsOf(v any, but ...string) []string {
	var out []string
	for t, i := reflect.TypeOf(v), 0; i < t.NumField(); i++ {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" && !slices.Contains(but, name) {
			out = append(out, name)
		}
	}
	return out
}

// A sample has every kind with every parameter, and each of its breaks can be read.
func TestSampleHasEverything(t *testing.T) {
	seen := map[string]map[string]bool{}
	for seed := range uint64(12) {
		for name, text := range Sample(seed, 1000) {
			b, err := Parse(name+".yaml", []byte(text))
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			if seen[b.Kind] == nil {
				seen[b.Kind] = map[string]bool{}
			}
			for key := range b.With {
				seen[b.Kind][key] = true
			}
		}
	}
	for kind := range kinds {
		if seen[kind] == nil && kind != "filter-no-redirect" { // which is refused
			t.Errorf("no sample of the kind %s", kind)
		}
		for _, p := range parameters[kind] {
			if !seen[kind][p] {
				t.Errorf("no sample of %s has %s", kind, p)
			}
		}
	}
}

// The same seed gives the same breaks, another one others.
func TestSampleIsOfItsSeed(t *testing.T) {
	a, _ := json.Marshal(Sample(7, 40))
	b, _ := json.Marshal(Sample(7, 40))
	c, _ := json.Marshal(Sample(8, 40))
	if string(a) != string(b) || string(a) == string(c) {
		t.Error("a seed is not what the breaks are drawn from")
	}
	if n := len(slices.Collect(maps.Keys(Sample(7, 40)))); n != 40 {
		t.Errorf("%d breaks", n)
	}
}
