//go:build breaks

package breaks

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/internal/demo"
	"github.com/wallproof/wallproof/policy"
	"go.yaml.in/yaml/v3"
)

// DefaultPolicy is the demonstration's.
const DefaultPolicy = "demo"

//go:embed policies/*.yaml
var policies embed.FS

// Policies names the policies on which a break can be tried.
func Policies() []string {
	list, _ := policies.ReadDir("policies")
	out := []string{DefaultPolicy}
	for _, e := range list {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return out
}

// document is the text of a policy.
func document(name string) ([]byte, error) {
	if name == DefaultPolicy {
		return demo.Policy, nil
	}
	if !slices.Contains(Policies(), name) {
		return nil, fmt.Errorf("policy: there is no policy %q; there are: %s", name, strings.Join(Policies(), ", "))
	}
	return policies.ReadFile("policies/" + name + ".yaml")
}

// Tested is the policy that the battery is told of.
func (b *Break) Tested() (*policy.Policy, error) {
	doc, err := document(b.Policy)
	if err != nil {
		return nil, err
	}
	return policy.Parse(b.Policy, doc)
}

// policyEdit has the proxy enforce another policy than the one that is tested:
// what "add" holds is added to the lists of the document, what "set" holds
// replaces, and what "remove" names is taken out.
func policyEdit(b *Break, h *battery.Breaks) error {
	var p struct {
		Add    map[string]any `json:"add"`
		Set    map[string]any `json:"set"`
		Remove []string       `json:"remove"`
	}
	if err := b.with(&p); err != nil {
		return err
	}
	if len(p.Add)+len(p.Set)+len(p.Remove) == 0 {
		return errors.New("policy needs add, set or remove")
	}
	doc, err := document(b.Policy)
	if err != nil {
		return err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(doc, &tree); err != nil {
		return fmt.Errorf("read the policy %s: %w", b.Policy, err)
	}
	for key, more := range p.Add {
		have, _ := tree[key].([]any)
		list, ok := more.([]any)
		if !ok {
			return fmt.Errorf("add: %s is no list", key)
		}
		tree[key] = append(have, list...)
	}
	for key, value := range p.Set {
		tree[key] = value
	}
	for _, key := range p.Remove {
		delete(tree, key)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	if err := enc.Encode(tree); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	if h.Policy, err = policy.Parse("the broken policy", out.Bytes()); err != nil {
		return err
	}
	return b.differs(h.Policy)
}

// differs refuses an edit that changes nothing, or only for how long a lease is kept:
// the test's git host ends each by itself long before that, as the real one does
// after an hour.
func (b *Break) differs(broken *policy.Policy) error {
	tested, err := b.Tested()
	if err != nil {
		return err
	}
	same := *broken
	same.Broker = slices.Clone(broken.Broker)
	for i := range same.Broker {
		if i < len(tested.Broker) {
			same.Broker[i].Lease = tested.Broker[i].Lease
		}
	}
	before, err := tested.Digest()
	if err != nil {
		return err
	}
	after, err := same.Digest()
	if err != nil || after != before {
		return err
	}
	return errors.New("policy: what is enforced is what is tested, but for how long a lease is kept at most: the git host of the test ends each one sooner; it opens no hole (noLeaseExpiry of the kind proxy does)")
}
