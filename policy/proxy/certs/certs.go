// Package certs is the certificate authority of one run. Its key is made when
// the run begins, lives in memory only, and ends with the process.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Validity is how long the authority and its certificates are valid: longer
// than a run with the longest lingering.
const Validity = 8 * 24 * time.Hour

// backdate makes certificates valid for sandboxes whose clock is behind.
const backdate = time.Hour

// maxCached bounds the certificates kept; beyond it all are made anew.
const maxCached = 4096

// Authority mints certificates. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // one key for all leaves: they differ in name only
	pem  []byte
	now  time.Time

	mu    sync.Mutex
	cache map[string]*tls.Certificate
}

// New makes an authority for a run.
func New(runID string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the run's authority: %w", err)
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the run's certificate key: %w", err)
	}
	tmpl, err := template(now)
	if err != nil {
		return nil, err
	}
	tmpl.Subject = pkix.Name{CommonName: "Wallproof run " + runID, Organization: []string{"Wallproof"}}
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.MaxPathLenZero = true, true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the run's authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the run's authority: %w", err)
	}
	return &Authority{
		cert: cert, key: key, leaf: leaf, now: now,
		pem:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		cache: map[string]*tls.Certificate{},
	}, nil
}

func template(now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    now.Add(-backdate).UTC(),
		NotAfter:     now.Add(Validity).UTC(),
	}, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return append([]byte(nil), a.pem...) }

// Certificate returns a certificate for a normalised name or an address.
func (a *Authority) Certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.cache[host]; c != nil {
		return c, nil
	}
	c, err := a.mint(host)
	if err != nil {
		return nil, err
	}
	if len(a.cache) >= maxCached {
		clear(a.cache)
	}
	a.cache[host] = c
	return c, nil
}

func (a *Authority) mint(host string) (*tls.Certificate, error) {
	tmpl, err := template(a.now)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		tmpl.IPAddresses = []net.IP{ip.AsSlice()}
	} else {
		tmpl.DNSNames = []string{host}
	}
	// A common name holds at most 64 characters and nothing reads it any more.
	tmpl.Subject = pkix.Name{Organization: []string{"Wallproof"}}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, a.leaf.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	return &tls.Certificate{
		Certificate: [][]byte{der, a.cert.Raw},
		PrivateKey:  crypto.Signer(a.leaf),
		Leaf:        leaf,
	}, nil
}
