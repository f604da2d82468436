//go:build linux

package standalone

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/policy/proxy"
)

// identities writes an authority and two identities of it, of the agent and of a
// proxy, into dir.
func identities(t *testing.T, dir string) {
	t.Helper()
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ca *x509.Certificate
	var caKey *ecdsa.PrivateKey
	for i, name := range []string{"ca", "agent", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		tmpl := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		switch name {
		case "ca":
			tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign
			ca, caKey = tmpl, key
		case "agent":
			tmpl.ExtKeyUsage, tmpl.IPAddresses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []net.IP{net.IPv4(127, 0, 0, 1)}
		case "client":
			tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}
		der, err := x509.CreateCertificate(rand.Reader, tmpl, ca, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		if ca == tmpl {
			if ca, err = x509.ParseCertificate(der); err != nil {
				t.Fatal(err)
			}
		}
		b, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		write(name+".key", "PRIVATE KEY", b)
	}
}

// A policy with egress leads the traffic of a stand-alone proxy through a
// stand-alone agent, which decides a second time; each log says who refused.
func TestD12EgressAgent(t *testing.T) {
	agent, f := newFixture(t, openPolicy), newFixture(t, "")
	identities(t, agent.dir)
	in := func(name string) string { return filepath.Join(agent.dir, name) }
	agent.opts.Listen = []Listen{{proxy.KindAgent, "127.0.0.1:0"}}
	agent.opts.Agent = &AgentFiles{Cert: in("agent.pem"), Key: in("agent.key"), ClientCA: in("ca.pem")}
	agent.opts.CAOut, agent.opts.EnvOut = "", ""
	agent.opts.Resolve, agent.opts.Resolver = f.opts.Resolve, "127.0.0.1:1"
	agent.write(strings.ReplaceAll(openPolicy, "PORT", f.port))
	agent.start()
	addr := agent.in.Addrs[0].String()
	// The agent's own policy lacks the second host. The proxy alone can reach
	// nothing: its only name server is the agent.
	f.opts.Resolve, f.opts.Resolver = nil, "127.0.0.1:1"
	doc := strings.Replace(tokenPolicy, "secrets:", "  - {host: second.example, ports: [80]}\nsecrets:", 1)
	f.write(doc + "egress: {agent: \"" + addr + "\", server-ca: {file: " + in("ca.pem") +
		"}, client-cert: {file: " + in("client.pem") + "}, client-key: {file: " + in("client.key") + "}}\n")
	f.start()
	if body, err := f.get(); err != nil || !strings.Contains(body, "****") || f.auth[0] != "Bearer "+tokenValue {
		t.Errorf("through the agent: %q %v", body, err)
	}
	resp, err := f.client().Get("http://second.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode == 200 {
		t.Errorf("the agent let second.example through")
	}
	resp, err = f.client().Get("http://evil.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	points := map[string]string{}
	for _, b := range f.in.Recorder.Blocked("") {
		points[b.Host] = b.Point
	}
	if points["evil.example"] != "proxy" {
		t.Errorf("the proxy's log: %v", points)
	}
	for _, b := range agent.in.Recorder.Blocked("") {
		if b.Point != proxy.PointAgent || b.Host == "evil.example" {
			t.Errorf("the agent's log: %+v", b)
		}
	}
	if n := len(agent.in.Recorder.Blocked("")); n == 0 {
		t.Error("the agent's log is empty")
	}
	// An edit that takes the tunnel away would have the traffic leave elsewhere.
	f.write(strings.ReplaceAll(tokenPolicy, "PORT", f.port))
	if err := <-f.edited; err == nil || !strings.Contains(err.Error(), "where traffic leaves") {
		t.Errorf("an edit of egress: %v", err)
	}
}

// A policy whose agent's credentials cannot be read stops before anything is served.
func TestD12UnreadableTunnel(t *testing.T) {
	f := newFixture(t, openPolicy+"egress: {agent: \"127.0.0.1:1\", server-ca: {file: /nowhere}, client-cert: {file: /nowhere}, client-key: {file: /nowhere}}\n")
	f.opts.Ready = func(*Instance) { t.Error("it serves") }
	if err := Run(t.Context(), t.Context(), f.opts); err == nil || !strings.Contains(err.Error(), "egress agent") {
		t.Errorf("%v", err)
	}
}
