//go:build stack

package stacktest

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/wallproof/wallproof/attest"
)

const here = "127.0.0.1"

// Stack is one running deployment.
type Stack struct {
	*Issuer
	Services attest.Services
	Root     []byte // its trusted root, JSON
	rekor    *process
	tsa      *process
}

// Binary finds a server in the cache that internal/tools/stack fills.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := Optional(t, name)
	if path == "" {
		t.Fatalf("%s is not built; run: make stack", name)
	}
	return path
}

// Optional is Binary for a peer that takes long to build: "" where it is not.
func Optional(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("WALLPROOF_STACK")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "wallproof", "stack")
	}
	found, err := filepath.Glob(filepath.Join(dir, name+"-v*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

// stop ends the server and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// run starts a server and waits until a URL answers.
func run(t testing.TB, name, ready string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(Binary(t, name), args...), done: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // killed on purpose, or its log says why it ended
		close(p.done)
	}()
	t.Cleanup(p.stop)
	deadline := time.Now().Add(60 * time.Second)
	for {
		resp, err := http.Get(ready)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return p
			}
		}
		if p.ended() || time.Now().After(deadline) {
			p.stop()
			t.Fatalf("%s does not answer at %s: %v\n%s", name, ready, err, p.log.String())
		}
		time.Sleep(50 * time.Millisecond) // a poll with a deadline: the servers announce nothing
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", here+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// New starts a whole deployment, which ends with the test.
func New(t testing.TB) *Stack {
	t.Helper()
	p := pki{t, t.TempDir()}
	s := &Stack{Issuer: NewIssuer(t)}
	fulcioKey := p.key("fulcio")
	ca := p.authority("fulcio", fulcioKey)
	ctKey, rekorKey := p.key("ct"), p.key("rekor")
	tsaRootKey, tsaKey := p.key("tsaroot"), p.key("tsa")
	tsaRoot := p.authority("tsaroot", tsaRootKey)
	leaf := p.stamper("tsa", tsaKey, tsaRoot, tsaRootKey)

	ct := freePort(t)
	run(t, "ctlog", "http://"+here+":"+ct+"/ct/v1/get-roots", "--private_key="+p.path("ct.ec"), "--origin=ct.test.local", "--storage_dir="+p.path("ctlog"),
		"--roots_pem_file="+p.path("fulcio.crt"), "--ext_key_usages=CodeSigning", "--http_endpoint="+here+":"+ct, "--checkpoint_interval=500ms", "--batch_max_age=100ms")
	fulcio := freePort(t)
	config := fmt.Sprintf("oidc-issuers:\n  %[1]s:\n    issuer-url: %[1]s\n    client-id: sigstore\n    type: email\n", s.URL)
	if err := os.WriteFile(p.path("fulcio.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "fulcio", "http://"+here+":"+fulcio+"/healthz", "serve", "--host="+here, "--port="+fulcio, "--grpc-host="+here, "--grpc-port="+freePort(t), "--metrics-port="+freePort(t),
		"--legacy-unix-domain-socket="+p.path("f.sock"), "--ca=fileca", "--fileca-cert="+p.path("fulcio.crt"), "--fileca-key="+p.path("fulcio.key"), "--fileca-key-passwd=",
		"--fileca-watch=false", "--ct-log-url=http://"+here+":"+ct, "--ct-log-public-key-path="+p.path("ct.pub"), "--config-path="+p.path("fulcio.yaml"))
	rekor := freePort(t)
	s.rekor = run(t, "rekor", "http://"+here+":"+rekor+"/healthz", "serve", "--http-address="+here, "--http-port="+rekor, "--grpc-address="+here, "--grpc-port="+freePort(t),
		"--http-metrics-port="+freePort(t), "--hostname="+here, "--storage-dir="+p.path("rekorlog"), "--signer-filepath="+p.path("rekor.key"),
		"--batch-max-age=100ms", "--batch-max-size=16", "--checkpoint-interval=200ms", "--persistent-antispam=false")
	tsa := freePort(t)
	s.tsa = run(t, "tsa", "http://"+here+":"+tsa+"/ping", "serve", "--host", here, "--port", tsa, "--timestamp-signer", "file",
		"--file-signer-key-path", p.path("tsa.key"), "--certificate-chain-path", p.path("tsa.chain"), "--disable-ntp-monitoring")

	s.Services = attest.Services{
		Fulcio:     "http://" + here + ":" + fulcio,
		Rekor:      []attest.RekorLog{{URL: "http://" + here + ":" + rekor, Version: 2}},
		Timestamps: []string{"http://" + here + ":" + tsa + "/api/v1/timestamp"},
	}
	s.Root = trustedRoot(t, ca, ctKey.Public(), rekorKey.Public(), tsaRoot, leaf)
	s.Services.TrustedRoot = s.Root
	return s
}

// trustedRoot describes the deployment to a verifier.
func trustedRoot(t testing.TB, ca *x509.Certificate, ct, rekor crypto.PublicKey, tsaRoot, tsaLeaf *x509.Certificate) []byte {
	t.Helper()
	from := time.Now().Add(-time.Hour)
	der, err := x509.MarshalPKIXPublicKey(ct)
	if err != nil {
		t.Fatal(err)
	}
	ctID := sha256.Sum256(der)
	// A Rekor v2 log's id is the whole hash behind its checkpoint's key hint; its
	// origin is its host name.
	_, rekorID, err := note.KeyHash(here, rekor)
	if err != nil {
		t.Fatal(err)
	}
	log := func(url string, id []byte, key crypto.PublicKey) map[string]*root.TransparencyLog {
		return map[string]*root.TransparencyLog{fmt.Sprintf("%x", id): {
			BaseURL: url, ID: id, ValidityPeriodStart: from, HashFunc: crypto.SHA256, PublicKey: key, SignatureHashFunc: crypto.SHA256,
		}}
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01,
		[]root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: ca, ValidityPeriodStart: from, URI: "http://fulcio.test.local"}},
		log("http://ct.test.local", ctID[:], ct),
		[]root.TimestampingAuthority{&root.SigstoreTimestampingAuthority{Root: tsaRoot, Leaf: tsaLeaf, ValidityPeriodStart: from, URI: "http://tsa.test.local"}},
		log("http://"+here, rekorID, rekor))
	if err != nil {
		t.Fatal(err)
	}
	data, err := tr.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// SigningConfig describes the deployment to a signer.
func (s *Stack) SigningConfig() []byte {
	from := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	service := func(url string, version int) string {
		return fmt.Sprintf(`[{"url":%q,"majorApiVersion":%d,"operator":"stacktest","validFor":{"start":%q}}]`, url, version, from)
	}
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","caUrls":%s,"oidcUrls":%s,"rekorTlogUrls":%s,"tsaUrls":%s,"rekorTlogConfig":{"selector":"ANY"},"tsaConfig":{"selector":"ANY"}}`,
		service(s.Services.Fulcio, 1), service(s.URL, 1), service(s.Services.Rekor[0].URL, 2), service(s.Services.Timestamps[0], 1))
}
