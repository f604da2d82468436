package battery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
)

// Places inside every sandbox.
const (
	toolsMount = "/.wallproof"    // our own binaries, read-only
	trustMount = "/etc/wallproof" // certificate authorities, read-only
	caFile     = trustMount + "/ca.pem"
)

// caVariables name the file of trusted authorities for the usual clients.
var caVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
	"PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT"}

// trustStores are where distributions keep the file of trusted authorities. The
// CA file is mounted over those that an image has.
var trustStores = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}

// environment is what a sandbox's processes get: the image's own variables, the
// proxy, the authorities, and a placeholder for each secret. Nothing of the
// host's is in it. Later values win.
func environment(image []string, box boundary.Box, secrets tenantSecrets) []string {
	env := slices.Clone(image)
	proxyURL := fmt.Sprintf("http://%s:%d", box.Gateway4, boundary.PortProxy)
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"} {
		env = append(env, name+"="+proxyURL)
	}
	env = append(env, "NO_PROXY=localhost", "no_proxy=localhost")
	for _, name := range caVariables {
		env = append(env, name+"="+caFile)
	}
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
