//go:build stack

package stacktest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pki makes the keys and certificates of a deployment, as files in a folder.
type pki struct {
	t   testing.TB
	dir string
}

func (p pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p pki) write(name, typ string, blocks ...[]byte) {
	p.t.Helper()
	var out []byte
	for _, b := range blocks {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b})...)
	}
	if err := os.WriteFile(p.path(name), out, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// key makes a P-256 key and writes NAME.key (PKCS #8), NAME.ec (SEC 1) and
// NAME.pub: the servers do not agree on a form.
func (p pki) key(name string) *ecdsa.PrivateKey {
	p.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		p.t.Fatal(err)
	}
	pub, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		p.t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name+".key", "PRIVATE KEY", der)
	p.write(name+".ec", "EC PRIVATE KEY", sec1)
	p.write(name+".pub", "PUBLIC KEY", pub)
	return k
}

// authority makes a self-signed certificate authority and writes NAME.crt.
func (p pki) authority(name string, k crypto.Signer) *x509.Certificate {
	p.t.Helper()
	c := p.certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"stacktest"}}, IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil, k.Public(), k)
	p.write(name+".crt", "CERTIFICATE", c.Raw)
	return c
}

// stamper makes a timestamping certificate below an authority and writes the
// chain to NAME.chain. The one extended key usage must be critical (RFC 3161,
// 2.3).
func (p pki) stamper(name string, k crypto.Signer, ca *x509.Certificate, caKey crypto.Signer) *x509.Certificate {
	p.t.Helper()
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		p.t.Fatal(err)
	}
	c := p.certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"stacktest"}}, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}},
	}, ca, k.Public(), caKey)
	p.write(name+".chain", "CERTIFICATE", c.Raw, ca.Raw)
	return c
}

func (p pki) certificate(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) *x509.Certificate {
	p.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		p.t.Fatal(err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		p.t.Fatal(err)
	}
	id := sha256.Sum256(der)
	template.SubjectKeyId = id[:20]
	if parent == nil {
		parent = template
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}
