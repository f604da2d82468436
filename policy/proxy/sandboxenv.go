package proxy

import (
	"sort"

	"github.com/wallproof/wallproof/policy"
)

// CAPath is where a sandbox finds the certificate of the run's authority.
const CAPath = "/etc/wallproof/ca.pem"

// TrustStores are the files that programs read their trusted authorities from
// when no variable says otherwise. A sandbox gets the run's authority, alone or
// with the image's own ones, mounted over those that exist in its image; the
// image and its digest do not change.
var TrustStores = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // CentOS
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // Alpine, BSD
}

// caVariables are read by programs that have a store of their own.
var caVariables = []string{
	"SSL_CERT_FILE",                      // OpenSSL, Go, Ruby
	"CURL_CA_BUNDLE",                     // curl
	"REQUESTS_CA_BUNDLE",                 // Python's requests
	"PIP_CERT",                           // pip
	"NODE_EXTRA_CA_CERTS",                // Node.js
	"GIT_SSL_CAINFO",                     // git
	"CARGO_HTTP_CAINFO",                  // cargo
	"AWS_CA_BUNDLE",                      // AWS SDKs
	"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",   // gRPC
	"NIX_SSL_CERT_FILE",                  // Nix
	"DENO_CERT",                          // Deno
	"BUNDLE_SSL_CA_CERT",                 // Bundler
	"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", // gcloud
}

// proxyVariables lead programs to the explicit listener. Those that ignore them
// meet the transparent one.
var proxyVariables = []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}

// SandboxEnv is the environment that makes programs in a sandbox use the proxy
// and trust it: "NAME=value", sorted. caPath is CAPath or where else the
// certificate lies; proxyURL is "http://host:port", or "" where every connection
// is redirected anyway.
func SandboxEnv(caPath, proxyURL string) []string {
	var env []string
	for _, name := range caVariables {
		env = append(env, name+"="+caPath)
	}
	if proxyURL != "" {
		for _, name := range proxyVariables {
			env = append(env, name+"="+proxyURL)
		}
		env = append(env, "no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1")
	}
	sort.Strings(env)
	return env
}

// ModelEnv is how programs find the model: its fixed name and the run's own key,
// in the variables of both formats' libraries. It is nil without a model.
func ModelEnv(p *policy.Policy, key string) []string {
	if p.Model == nil {
		return nil
	}
	base := "https://" + policy.ModelHost
	return []string{
		"ANTHROPIC_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + base,
		"OPENAI_API_KEY=" + key, "OPENAI_BASE_URL=" + base + "/v1",
	}
}
