package battery

import (
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/policy/proxy"
)

// Places inside every sandbox.
const (
	toolsMount = "/.wallproof"    // our own binaries, read-only
	trustMount = "/etc/wallproof" // certificate authorities, read-only
	caFile     = trustMount + "/ca.pem"
)

// environment is what a sandbox's processes get: the image's own variables, the
// proxy, the authorities, and a placeholder for each secret. Nothing of the
// host's is in it. Later values win.
func environment(image []string, box boundary.Box, secrets tenantSecrets) []string {
	env := slices.Clone(image)
	env = append(env, proxy.SandboxEnv(caFile, proxyURL(box))...)
	// The addresses of loopback go to the proxy, which is then seen to refuse them.
	env = append(env, "NO_PROXY=localhost", "no_proxy=localhost")
	for _, s := range secrets {
		env = append(env, s.Name+"="+s.Placeholder)
	}
	return lastWins(env)
}

// withoutRuntime leaves out variables that steer the run-time of a program itself.
// The sandbox's first process is ours, and the image has no say in how it runs.
func withoutRuntime(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GLIBC_") || strings.HasPrefix(name, "MALLOC_") {
			continue
		}
		out = append(out, kv)
	}
	return out
}

// lastWins keeps the last value of each variable, in order of first appearance.
func lastWins(env []string) []string {
	at := map[string]int{}
	var out []string
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if i, seen := at[name]; seen {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}
