package proxy

import (
	"slices"
	"strings"
	"testing"
)

// D13: the variables by which programs with a store of their own find the authority,
// each with the certificate's place in the sandbox, and the ways to the proxy.
func TestD13UsualVariables(t *testing.T) {
	env := SandboxEnv(CAPath, "http://10.0.0.1:3128")
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE"} {
		if !slices.Contains(env, name+"="+CAPath) {
			t.Errorf("%s does not name %s", name, CAPath)
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "HTTPS_PROXY"} {
		if !slices.Contains(env, name+"=http://10.0.0.1:3128") {
			t.Errorf("%s does not lead to the proxy", name)
		}
	}
	for _, kv := range SandboxEnv(CAPath, "") {
		if strings.Contains(strings.ToLower(kv), "proxy") {
			t.Errorf("%s, where every connection is redirected", kv)
		}
	}
	for _, store := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if !slices.Contains(TrustStores, store) {
			t.Errorf("%s is no trust store", store)
		}
	}
}
