// Package pki is the world's certificate authority: it makes a certificate for
// whatever name or address a client asks for, so that TLS works with every host
// of the world for a client that trusts the authority.
//
// Keys are ECDSA P-256. All certificates of one authority share one leaf key:
// they protect nothing, and minting stays cheap.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	validFor  = 48 * time.Hour // a run lasts minutes
	skew      = time.Hour      // clocks inside a sandbox may lag
	maxCached = 1024
)

// CA is a certificate authority as it crosses a process border: PEM of one
// certificate and of its PKCS #8 key.
type CA struct {
	CertPEM string `json:"certPEM,omitempty"`
	KeyPEM  string `json:"keyPEM,omitempty"`
}

// New makes an authority with the given common name.
func New(name string) (CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return CA{}, fmt.Errorf("make key of the authority: %w", err)
	}
	t, err := template(name)
	if err != nil {
		return CA{}, err
	}
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return CA{}, fmt.Errorf("make certificate of the authority: %w", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return CA{}, fmt.Errorf("encode key of the authority: %w", err)
	}
	return CA{
		CertPEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		KeyPEM:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})),
	}, nil
}

// Minter makes certificates. It is safe for concurrent use.
type Minter struct {
	parent *x509.Certificate
	signer crypto.Signer
	leaf   *ecdsa.PrivateKey

	mu     sync.Mutex
	cached map[string]*tls.Certificate
}

// Minter returns the means to make certificates of the authority.
func (c CA) Minter() (*Minter, error) {
	certBlock, _ := pem.Decode([]byte(c.CertPEM))
	keyBlock, _ := pem.Decode([]byte(c.KeyPEM))
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("certificate authority: certificate or key is not PEM")
	}
	parent, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("certificate authority: key cannot sign")
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make leaf key: %w", err)
	}
	return &Minter{parent: parent, signer: signer, leaf: leaf, cached: map[string]*tls.Certificate{}}, nil
}

// For returns a certificate for a host name or an address.
func (m *Minter) For(name string) (*tls.Certificate, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.cached[name]; c != nil {
		return c, nil
	}
	t, err := template(name)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(name); err == nil {
		t.IPAddresses = append(t.IPAddresses, a.AsSlice())
	} else {
		t.DNSNames = []string{name}
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, m.parent, m.leaf.Public(), m.signer)
	if err != nil {
		return nil, fmt.Errorf("make certificate for %q: %w", name, err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, m.parent.Raw}, PrivateKey: m.leaf}
	if len(m.cached) >= maxCached { // names come from outside: forget all rather than grow
		clear(m.cached)
	}
	m.cached[name] = c
	return c, nil
}

func template(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	now := time.Now()
	common := name
	if len(common) > 64 { // ub-common-name of RFC 5280; the full name is in the SAN
		common = common[:64]
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: common},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(validFor),
	}, nil
}
