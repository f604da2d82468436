//go:build breaks

package battery

import (
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/policy/proxy"
)

// Breaks are the seeded breaks of the attack's boundary: each opens exactly one
// thing, and the battery has to notice. They exist only in a binary built with
// the tag "breaks".
type Breaks struct {
	Boundary boundary.Hooks `json:"boundary"`
	Proxy    proxy.Breaks   `json:"proxy"`
	// LeakEnv leaves secrets in the work sandbox's environment: variable name →
	// name of the secret.
	LeakEnv map[string]string `json:"leakEnv,omitempty"`
}

func (b Breaks) boundary() boundary.Hooks { return b.Boundary }
func (b Breaks) proxy() proxy.Breaks      { return b.Proxy }

// environment adds the variables that a leak leaves behind; canaries maps a
// secret's name to what stands in for it.
func (b Breaks) environment(env []string, canaries map[string]string) []string {
	for name, secret := range b.LeakEnv {
		env = append(env, name+"="+canaries[secret])
	}
	return env
}

// any: the boundary may fail its own verification, because it was broken on
// purpose.
func (b Breaks) any() bool { return true }
