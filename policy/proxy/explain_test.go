package proxy

import (
	"io"
	"net/http"
	"testing"

	"github.com/wallproof/wallproof/policy"
)

// TestB23ExplainedAsEnforced: what `policy explain` says of a request is what
// happens to it: allowed or denied, for the same reason, looked into or not.
func TestB23ExplainedAsEnforced(t *testing.T) {
	const doc = `version: 1
name: test
mode: allowlist
allow:
  - {host: plain.example, ports: [80, 443]}
  - {host: "*.wide.example", methods: [GET], ports: [80, 443]}
  - {url: https://token.example/open}
  - {host: other.example}
  - {cidr: 203.0.113.7/32, ports: [80]}
block:
  - {url: https://plain.example/shut}
  - {host: no.wide.example}
secrets:
  - name: TOKEN
    from: {env: TOKEN}
    inject: [{host: token.example, as: bearer}, {host: other.example, paths: [/v2], as: bearer}]
`
	w := newWorld(t)
	for name, addr := range map[string]string{
		"plain.example": allowedIP, "a.wide.example": "93.184.216.40", "no.wide.example": "93.184.216.41", "token.example": otherIP,
		"other.example": "93.184.216.36", "evil.example": evilIP, "203.0.113.7": "203.0.113.7", "inside.wide.example": "10.0.0.9",
	} {
		w.host(name, addr, echo())
	}
	p := w.proxy(doc, withToken)
	parsed, err := policy.Parse("t", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	ev, err := policy.Compile(parsed)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"plain.example", "PLAIN.example.", "a.wide.example", "wide.example", "no.wide.example", "x.no.wide.example", "token.example", "other.example", "evil.example",
		"203.0.113.7", "localhost", "metadata.google.internal", "0xcb.0x71.7", "169.254.169.254", "[::ffff:169.254.169.254]", "model.wallproof.internal"} {
		for _, scheme := range []string{"http", "https"} {
			for _, path := range []string{"/", "/open/x", "/OPEN", "/shut", "/shut/y", "/SHUT/", "/shutter", "/open/../shut", "/v2/a", "/%2e%2e/shut"} {
				for _, method := range []string{"GET", "DELETE"} {
					url := scheme + "://" + h + path
					x := ev.ExplainRequest(method, url)
					req, err := http.NewRequest(method, url, nil)
					if err != nil {
						t.Fatal(err)
					}
					allowed, reason, intercepted := false, "", false
					tr := p.client(false)
					resp, err := tr.Do(req)
					if err == nil {
						allowed, reason = resp.Header.Get(reasonField) == "", resp.Header.Get(reasonField)
						intercepted = resp.TLS != nil && resp.TLS.PeerCertificates[0].Issuer.CommonName != "world"
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					tr.CloseIdleConnections()
					if allowed != x.Allowed() || reason != "" && reason != string(x.Reason) {
						t.Errorf("%s %s: explained %v %s, happened %v %s (%v)", method, url, x.Verdict, x.Reason, allowed, reason, err)
					}
					if allowed && scheme == "https" && intercepted != x.Intercept {
						t.Errorf("%s %s: explained as intercepted: %v, was: %v", method, url, x.Intercept, intercepted)
					}
				}
			}
		}
	}
}
