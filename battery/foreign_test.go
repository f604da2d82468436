package battery

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/adapter"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/nonce"
)

// A line of somebody else's log counts for the attempt that it is tied to, and
// for nobody otherwise.
func TestForeignAttribution(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	box, other := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.6")
	mine := nonce.New(key, "r", "NET-HTTP", "absolute-v4", nonce.PhaseAttack)
	base := adapter.Record{Time: at, Client: netip.AddrPortFrom(box, 40123), Method: "GET", Scheme: "http", Host: "evil.example", Port: 80, URL: "http://evil.example/", Status: 403, Verdict: adapter.Denied, Reason: "squid:TCP_DENIED"}
	tests := []struct {
		name    string
		change  func(*adapter.Record)
		verdict string // "" when it may be tied to nobody
	}{
		{"by the source port", func(*adapter.Record) {}, judge.VerdictDeny},
		{"by the nonce in the URL, without a port", func(r *adapter.Record) { r.Client, r.URL = netip.AddrPortFrom(box, 0), "http://evil.example/"+mine }, judge.VerdictDeny},
		{"by the nonce in the name", func(r *adapter.Record) { r.Client, r.Host = netip.AddrPortFrom(box, 0), mine+".evil.example" }, judge.VerdictDeny},
		{"no port and no nonce", func(r *adapter.Record) { r.Client = netip.AddrPortFrom(box, 0) }, ""},
		{"another sandbox's port", func(r *adapter.Record) { r.Client = netip.AddrPortFrom(other, 40123) }, ""},
		{"another port", func(r *adapter.Record) { r.Client = netip.AddrPortFrom(box, 40124) }, ""},
		{"another time", func(r *adapter.Record) { r.Time = at.Add(10 * time.Second) }, ""},
		{"a failure is no refusal", func(r *adapter.Record) { r.Verdict = adapter.Failed }, verdictFailed},
		{"it was let through", func(r *adapter.Record) { r.Verdict = adapter.Allowed }, proxy.Allow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := base
			tt.change(&r)
			f := &foreign{texts: map[uint64]string{1: r.URL}}
			j := newJoiner([]attempt{{nonce: mine, sandbox: boxWork, addrs: []netip.Addr{box}}})
			j.text = f.text
			j.learnPorts(manifest.Observation{Nonce: mine, Time: at.Format(timeFormat), Millis: 100, Local: []string{"tcp/40123"}})
			got := j.fromProxy([]proxy.Event{foreignEvent("r", 1, r)})
			switch {
			case tt.verdict == "" && len(got) > 0:
				t.Errorf("it is tied to an attempt: %+v", got)
			case tt.verdict != "" && (len(got) != 1 || got[0].Verdict != tt.verdict || got[0].Nonce != mine):
				t.Errorf("got %+v, want %s", got, tt.verdict)
			}
		})
	}
}

func TestServerOf(t *testing.T) {
	for head, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\nServer: squid/5.7\r\n\r\n":                        "squid/5.7",
		"HTTP/1.1 400 Bad Request\r\nserver: mitmproxy 8.1.1\r\nX: y\r\n\r\n":          "mitmproxy 8.1.1",
		"HTTP/1.1 400 Bad Request\r\n\r\nServer: body/1":                               unknownVersion,
		"HTTP/1.1 400 Bad Request\r\nServer: a\x1b[31m\r\n\r\n":                        unknownVersion,
		"HTTP/1.1 400 Bad Request\r\nServer: " + strings.Repeat("x", 200) + "\r\n\r\n": unknownVersion,
		"rubbish": unknownVersion,
	} {
		if got := serverOf([]byte(head)); got != want {
			t.Errorf("%q: got %q, want %q", head, got, want)
		}
	}
}

func TestReadCA(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, private := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kb})
	path := filepath.Join(t.TempDir(), "ca.pem")
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(append(append([]byte{}, private...), cert...))
	text, digest, err := readCA(path)
	if err != nil || text != string(cert) || !strings.HasPrefix(digest, "sha256:") {
		t.Errorf("got %q, %q, %v: the key must stay where it is", text, digest, err)
	}
	for name, b := range map[string][]byte{"only a key": private, "nothing": nil, "no certificate inside": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})} {
		write(b)
		if _, _, err := readCA(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForeignProxyCheck(t *testing.T) {
	dir := t.TempDir()
	start, plain := filepath.Join(dir, "start"), filepath.Join(dir, "plain")
	for path, mode := range map[string]os.FileMode{start: 0o755, plain: 0o644} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	good := ForeignProxy{Start: start, Log: "access.log", Files: []string{plain}, Env: []string{"ALLOW=a b"}}
	if err := good.check(); err != nil {
		t.Errorf("%v", err)
	}
	for want, change := range map[string]func(*ForeignProxy){
		"log is not named": func(f *ForeignProxy) { f.Log = "" },
		"not executable":   func(f *ForeignProxy) { f.Start = plain },
		"nowhere":          func(f *ForeignProxy) { f.Files = []string{filepath.Join(dir, "nowhere")} },
		"one of ours":      func(f *ForeignProxy) { f.Env = []string{"WALLPROOF_PORT=1"} },
		"not NAME=VALUE":   func(f *ForeignProxy) { f.Env = []string{"ALLOW"} },
	} {
		f := good
		change(&f)
		if err := f.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
