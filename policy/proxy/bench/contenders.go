//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/wallproof/wallproof/policy/proxy"
)

// name is the origin's; value is what is injected.
const (
	name  = "origin.example"
	value = "wpcanaryabcdefghijklmnopqrstuvwx234567abcd"
)

// settings are handed to each role in a file.
type settings struct {
	Listen    string // of the role
	TLS, HTTP string // of the origin
	CA        string // file with the certificate and key that everybody trusts
	Intercept bool
	Out       string // ours: the run's certificate is written here
}

func read(path string) (s settings, cert tls.Certificate, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, cert, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, cert, err
	}
	cert, err = tls.LoadX509KeyPair(s.CA, s.CA)
	return s, cert, err
}

// authority makes an authority, in one file with its key.
func authority(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return err
	}
	kb, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	out := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kb}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	return os.WriteFile(path, out, 0o600)
}

// serveOrigin answers 1 KiB, or 64 MiB under /large.
func serveOrigin(path string) error {
	s, cert, err := read(path)
	if err != nil {
		return err
	}
	small, large := []byte(strings.Repeat("x", 1024)), []byte(strings.Repeat("some text that is no secret, 0123456789. ", 1<<15))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			_, _ = w.Write(small)
			return
		}
		for range 64 << 20 / len(large) {
			_, _ = w.Write(large)
		}
	})
	go func() { log.Fatal(http.ListenAndServe(s.HTTP, h)) }()
	srv := &http.Server{Addr: s.TLS, Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	return srv.ListenAndServeTLS("", "")
}

// serveOurs runs the enforcing proxy with everything switched on.
func serveOurs(path string) error {
	s, _, err := read(path)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(s.CA)
	if err != nil {
		return err
	}
	_, tlsPort, _ := net.SplitHostPort(s.TLS)
	_, httpPort, _ := net.SplitHostPort(s.HTTP)
	var doc strings.Builder
	fmt.Fprintf(&doc, "version: 1\nname: bench\nmode: allowlist\nallow:\n  - {host: %s, ports: [%s, 80]}\n  - {cidr: 127.0.0.0/8}\n", name, tlsPort)
	for i := range 1000 {
		fmt.Fprintf(&doc, "  - host: host-%d.example\n", i)
	}
	host := name
	if !s.Intercept {
		host = "other.example" // the secret is there, and so is redaction
		doc.WriteString("  - host: other.example\n")
	}
	fmt.Fprintf(&doc, "secrets:\n  - {name: TOKEN, from: {env: T}, inject: [{host: %s, as: bearer, ports: [%s, 443]}]}\n", host, tlsPort)
	record, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(record)
	srv, err := proxy.New(proxy.Config{
		RunID: "0123abcd", Policy: strings.Replace(doc.String(), "127.0.0.0/8}", "127.0.0.0/8, ports: ["+tlsPort+", "+httpPort+", 80]}", 1),
		Secrets:  []proxy.Secret{{Name: "TOKEN", Value: value}},
		Upstream: proxy.Upstream{RootsPEM: string(ca), Resolve: map[string]string{name + ":" + tlsPort: s.TLS, name + ":80": s.HTTP}},
		OnEvent:  func(ev proxy.Event) { _ = enc.Encode(ev) },
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.Out, srv.CAPEM(), 0o600); err != nil {
		return err
	}
	l, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return err
	}
	return srv.Serve(l, proxy.KindExplicit)
}

// serveGoproxy runs elazarl/goproxy the way its documentation does it.
func serveGoproxy(path string) error {
	s, cert, err := read(path)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(s.CA)
	if err != nil {
		return err
	}
	pool.AppendCertsFromPEM(ca)
	p := goproxy.NewProxyHttpServer()
	p.Logger = log.New(io.Discard, "", 0)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		to := s.TLS
		if strings.HasSuffix(addr, ":80") {
			to = s.HTTP
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	p.Tr = &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 1000, MaxIdleConns: 1000, DisableCompression: true}
	p.ConnectDial = func(network, addr string) (net.Conn, error) { return dial(context.Background(), network, addr) }
	if s.Intercept {
		if cert.Leaf == nil {
			if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
				return err
			}
		}
		action := &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&cert)}
		p.CertStore = &store{}
		p.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) { return action, host }))
		p.OnRequest().DoFunc(func(r *http.Request, _ *goproxy.ProxyCtx) (*http.Request, *http.Response) {
			r.Header.Set("Authorization", "Bearer "+value)
			return r, nil
		})
	}
	return http.ListenAndServe(s.Listen, p)
}
