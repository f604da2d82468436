package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// identity makes a certificate and key of the world's authority, as PEM.
func (w *world) identity(name string, usage x509.ExtKeyUsage) (certPEM, keyPEM string) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(w.key.Curve, rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, w.ca, key.Public(), w.key)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}))
}

// throughAgent starts an egress agent under agentPolicy, which alone reaches the
// world, and a proxy under basicPolicy that leaves through it.
func throughAgent(t *testing.T, w *world, agentPolicy string) *proxyUnderTest {
	t.Helper()
	agent, err := New(Config{
		RunID: "0123abcd", Policy: agentPolicy, Agent: true, Upstream: Upstream{Resolver: resolverAddr, RootsPEM: w.caPEM},
		Dial: w.dial, OnEvent: func(ev Event) { ev.Client = "agent"; w.record(ev) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	cert, key := w.identity("agent", x509.ExtKeyUsageServerAuth)
	cfg, err := MutualTLS(w.caPEM, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	go agent.Serve(l, KindAgent)
	cert, key = w.identity("proxy", x509.ExtKeyUsageClientAuth)
	return w.proxy(basicPolicy, func(c *Config) {
		withToken(c)
		c.Egress = &Egress{Address: l.Addr().String(), ServerCAPEM: w.caPEM, CertPEM: cert, KeyPEM: key}
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != l.Addr().String() {
				return nil, errors.New("the proxy left by itself: " + address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
}

func TestD12TrafficLeavesThroughTheAgent(t *testing.T) {
	w, s := basicWorld(t)
	p := throughAgent(t, w, basicPolicy)
	if status, reason, body := p.get(p.client(true), "https://token.example/x"); status != 200 || s.last(t).Header.Get("Authorization") != "Bearer "+testValue || strings.Contains(body, testValue) {
		t.Errorf("intercepted: %d %s", status, reason)
	}
	if status, reason, _ := p.get(p.client(true), "https://plain.example/"); status != 200 {
		t.Errorf("passed on: %d %s", status, reason)
	}
	if status, reason, _ := p.get(p.client(false), "http://plain.example/"); status != 200 {
		t.Errorf("plain: %d %s", status, reason)
	}
	if r := query(t, p, "plain.example", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("name: %v", r)
	}
	tc, err := p.handshake(p.redirected(otherIP+":443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, reason := ask(t, tc, "GET / HTTP/1.1\r\nHost: token.example\r\n\r\n"); status != 200 {
		t.Errorf("transparent: %d %s", status, reason)
	}
	if !w.wasDialled(allowedIP) || !w.wasDialled(otherIP) {
		t.Error("the agent dialled nothing")
	}
}

func TestD12TheAgentEnforcesASecondTime(t *testing.T) {
	w, s := basicWorld(t)
	narrower := strings.Replace(basicPolicy, "  - host: token.example\n    ports: [80, 443]\n", "  - host: token.example\n    ports: [8443]\n", 1)
	p := throughAgent(t, w, narrower)
	if status, reason, _ := p.get(p.client(false), "http://token.example/"); status != 403 || reason != "port" {
		t.Errorf("%d %s", status, reason)
	}
	ev := w.event("refused by the agent", func(e Event) bool { return e.Point == PointAgent && e.Client != "agent" })
	if ev.Host != "token.example" || ev.Verdict != Deny || ev.Client == "agent" {
		t.Errorf("event %+v", ev)
	}
	w.event("the agent's own", func(e Event) bool { return e.Client == "agent" && e.Reason == "port" && e.Point == PointAgent })
	// What the proxy refuses never gets to the agent.
	if status, _, _ := p.get(p.client(false), "http://evil.example/"); status != 403 {
		t.Error(status)
	}
	if s.count() != 0 || w.wasAsked("evil.example") {
		t.Error("something went through")
	}
}

func TestD12OnlyAKnownProxyIsServed(t *testing.T) {
	w, _ := basicWorld(t)
	p := throughAgent(t, w, basicPolicy)
	addr := p.egress.addr
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.caPEM))
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: "agent"})
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // TLS 1.3 tells of the refusal here
	}
	if err == nil {
		t.Error("a client without a certificate was served")
	}
	// An agent does not dial an address that it would not find itself.
	tc, err := p.egress.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tc.Close()
	if status, reason := ask(t, tc, "CONNECT plain.example:443 HTTP/1.1\r\nHost: plain.example:443\r\n"+addressField+": "+evilIP+"\r\n\r\n"); status != 403 || reason != ReasonOriginalDst {
		t.Errorf("%d %s", status, reason)
	}
	if w.wasDialled(evilIP) {
		t.Error("it was dialled")
	}
}
