package battery

import (
	"fmt"
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

// Bounds on the variables of an image. A kernel takes no string beyond 128 KiB
// and no more than a share of the stack in all; these lie well below, so that our
// own variables fit too.
const (
	maxImageVariable = 64 << 10
	maxImageEnv      = 256 << 10
)

// checkImageEnv refuses an image whose variables no process could be started
// with, before anything is started.
func checkImageEnv(env []string) error {
	total := 0
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		name = fmt.Sprintf("%.40q", name)
		switch {
		case strings.ContainsRune(kv, 0):
			return fmt.Errorf("the image's variable %s holds a NUL byte, which no process can be given; take it out of the image's configuration", name)
		case len(kv) > maxImageVariable:
			return fmt.Errorf("the image's variable %s has %d bytes, at most %d are taken; shorten it in the image's configuration", name, len(kv), maxImageVariable)
		}
		total += len(kv) + 1
	}
	if total > maxImageEnv {
		return fmt.Errorf("the image's %d variables have %d bytes together, at most %d are taken; shorten them in the image's configuration", len(env), total, maxImageEnv)
	}
	return nil
}

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
