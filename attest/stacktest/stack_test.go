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

// stack is one running deployment.
type stack struct {
	*issuer
	services attest.Services
	root     []byte
	rekor    *process
	tsa      *process
}

// binary finds a server in the cache that internal/tools/stack fills.
func binary(t testing.TB, name string) string {
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
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is not built; run: go run ./internal/tools/stack", name)
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
	p := &process{cmd: exec.Command(binary(t, name), args...), done: make(chan struct{})}
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

// newStack starts a whole deployment.
func newStack(t testing.TB) *stack {
	t.Helper()
	p := pki{t, t.TempDir()}
	s := &stack{issuer: newIssuer(t)}
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

	s.services = attest.Services{
		Fulcio:     "http://" + here + ":" + fulcio,
		Rekor:      []attest.RekorLog{{URL: "http://" + here + ":" + rekor, Version: 2}},
		Timestamps: []string{"http://" + here + ":" + tsa + "/api/v1/timestamp"},
	}
	s.root = trustedRoot(t, ca, ctKey.Public(), rekorKey.Public(), tsaRoot, leaf)
	s.services.TrustedRoot = s.root
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

// shared is one deployment for all tests that do not break it.
func sharedStack(t *testing.T) *stack {
	t.Helper()
	if shared == nil {
		t.Fatal("the deployment was not started")
	}
	return shared
}

var shared *stack

// TestStack starts the deployment once and runs every test against it.
func TestStack(t *testing.T) {
	shared = newStack(t)
	for name, test := range map[string]func(*testing.T){
		"keyless": testKeyless, "key": testKey, "refused": testRefusedToken, "payload": testLogEntryIsOverTheEnvelope, "cosign": testCosign,
	} {
		t.Run(name, test)
	}
	// Last, because it takes servers away.
	t.Run("outage", testOutage)
}
