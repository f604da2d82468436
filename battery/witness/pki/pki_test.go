package pki

import (
	"crypto/x509"
	"strings"
	"testing"
)

func TestMinting(t *testing.T) {
	ca, err := New("test world")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ca.Minter()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(ca.CertPEM)) {
		t.Fatal("the authority's certificate is no PEM")
	}
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example"
	for name, verify := range map[string]string{
		"a.example": "a.example", "A.Example.": "a.example", "10.0.0.1": "10.0.0.1", "fd00::1": "[fd00::1]", long: long,
	} {
		c, err := m.For(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: verify}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again, err := m.For(name); err != nil || again != c {
			t.Errorf("%s is minted anew (%v)", name, err)
		}
	}
	if other, err := m.For("b.example"); err != nil || other.Leaf != nil && other.Leaf.VerifyHostname("a.example") == nil {
		t.Errorf("certificate of another name: %v", err)
	}
}

func TestMinterIsBounded(t *testing.T) {
	ca, err := New("test world")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ca.Minter()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxCached + 10 {
		m.cached[strings.Repeat("x", i)] = nil
	}
	if _, err := m.For("a.example"); err != nil || len(m.cached) > maxCached {
		t.Errorf("%d cached, %v", len(m.cached), err)
	}
}

func TestBrokenAuthority(t *testing.T) {
	good, err := New("test world")
	if err != nil {
		t.Fatal(err)
	}
	for name, ca := range map[string]CA{
		"empty": {}, "no key": {CertPEM: good.CertPEM}, "no certificate": {KeyPEM: good.KeyPEM}, "swapped": {CertPEM: good.KeyPEM, KeyPEM: good.CertPEM},
	} {
		if _, err := ca.Minter(); err == nil {
			t.Errorf("%s: a minter was made", name)
		}
	}
}
