//go:build !breaks

package battery

import (
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/policy/proxy"
)

// Breaks are the seeded breaks of the attack's boundary. A release build has
// none: the type is empty and nothing reads it.
type Breaks struct{}

func (Breaks) boundary() boundary.Hooks { return boundary.Hooks{} }
func (Breaks) proxy() proxy.Breaks      { return proxy.Breaks{} }
func (Breaks) environment(env []string, _ map[string]string) []string {
	return env
}

// any: a release build has no break.
func (Breaks) any() bool { return false }
