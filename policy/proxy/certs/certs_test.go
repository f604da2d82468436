package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCertificatesVerifyForTheirHostAlone(t *testing.T) {
	now := time.Now()
	a, err := New("0123abcd", now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := New("0123abcd", now)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a.PEM(), other.PEM()) || bytes.Contains(a.PEM(), []byte("PRIVATE")) {
		t.Error("two runs share an authority, or its key is given out")
	}
	pool, foreign := x509.NewCertPool(), x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	foreign.AppendCertsFromPEM(other.PEM())
	long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".example"
	for _, host := range []string{"a.example", "xn--bcher-kva.example", "192.0.2.1", "2001:db8::1", long} {
		c, err := a.Certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		name := host
		if strings.Contains(host, ":") {
			name = "[" + host + "]"
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "evil.example", CurrentTime: now}); err == nil {
			t.Errorf("%s: good for another host", host)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: foreign, DNSName: name, CurrentTime: now}); err == nil {
			t.Errorf("%s: another run's authority vouches for it", host)
		}
		if c.Leaf.IsCA {
			t.Errorf("%s: it can sign", host)
		}
		if again, _ := a.Certificate(host); again != c {
			t.Errorf("%s: made twice", host)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	a, err := New("0123abcd", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxCached {
		a.cache[fmt.Sprint(i)] = nil
	}
	if _, err := a.Certificate("a.example"); err != nil || len(a.cache) > maxCached {
		t.Errorf("%d kept, %v", len(a.cache), err)
	}
}
