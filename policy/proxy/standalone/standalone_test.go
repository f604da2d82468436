//go:build linux

package standalone

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/record"
	"github.com/wallproof/wallproof/policy/proxy/secret"
)

const tokenValue = "wpcanaryabcdefghijklmnopqrstuvwx234567abcd"

// fixture is a stand-alone proxy before an HTTPS server of this machine, whose
// certificate is for example.com.
type fixture struct {
	t      testing.TB
	dir    string
	port   string
	opts   Options
	out    *lockedBuffer
	edited chan error
	in     *Instance
	stop   context.CancelFunc
	kill   context.CancelFunc
	done   chan error
	mu     sync.Mutex
	auth   []string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func newFixture(t testing.TB, policyDoc string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), out: &lockedBuffer{}, edited: make(chan error, 16), done: make(chan error, 1)}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.auth = append(f.auth, r.Header.Get("Authorization"))
		f.mu.Unlock()
		fmt.Fprintf(w, "auth %s", r.Header.Get("Authorization"))
	}))
	t.Cleanup(srv.Close)
	_, f.port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	ca := filepath.Join(f.dir, "upstream.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	f.opts = Options{
		PolicyFile: filepath.Join(f.dir, "policy.yaml"), Listen: []Listen{{proxy.KindExplicit, "127.0.0.1:0"}},
		CAOut: filepath.Join(f.dir, "ca.pem"), EnvOut: filepath.Join(f.dir, "env"), UpstreamCA: ca,
		Resolve: []string{"example.com:" + f.port + ":127.0.0.1"}, User: "someone",
		LogFile: filepath.Join(f.dir, "events.jsonl"), Operator: filepath.Join(f.dir, "ops.sock"),
		Secrets:  &secret.Resolver{Env: func(n string) (string, bool) { return tokenValue, n == "TOKEN" }},
		Messages: f.out,
		Edited:   func(err error) { f.edited <- err },
	}
	f.write(policyDoc)
	return f
}

func (f *fixture) write(doc string) {
	f.t.Helper()
	tmp := f.opts.PolicyFile + ".tmp"
	if err := os.WriteFile(tmp, []byte(strings.ReplaceAll(doc, "PORT", f.port)), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, f.opts.PolicyFile); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) start() {
	f.t.Helper()
	ready := make(chan *Instance, 1)
	f.opts.Ready = func(in *Instance) { ready <- in }
	ctx, stop := context.WithCancel(context.Background())
	second, kill := context.WithCancel(context.Background())
	f.stop, f.kill = stop, kill
	go func() { f.done <- Run(ctx, second, f.opts) }()
	f.t.Cleanup(func() { stop(); kill() })
	select {
	case f.in = <-ready:
	case err := <-f.done:
		f.t.Fatal(err)
	}
}

func (f *fixture) client() *http.Client {
	f.t.Helper()
	ca, err := os.ReadFile(f.opts.CAOut)
	if err != nil {
		f.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	up, _ := os.ReadFile(f.opts.UpstreamCA)
	pool.AppendCertsFromPEM(up)
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: f.in.Addrs[0].String()}),
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		DisableKeepAlives: true,
	}}
}

func (f *fixture) get() (string, error) {
	resp, err := f.client().Get("https://example.com:" + f.port + "/path?secret=query")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

const openPolicy = `version: 1
name: test
mode: allowlist
allow:
  - {host: example.com, ports: [PORT]}
  - {cidr: 127.0.0.0/8, ports: [PORT]}
`

const tokenPolicy = openPolicy + `secrets:
  - name: TOKEN
    from: {env: TOKEN}
    inject: [{host: example.com, as: bearer, ports: [PORT]}]
`

func TestItServesInjectsRecordsAndStops(t *testing.T) {
	f := newFixture(t, tokenPolicy)
	f.start()
	body, err := f.get()
	if err != nil || body != "auth Bearer "+strings.Repeat("*", len(tokenValue)) {
		t.Fatalf("%q %v", body, err)
	}
	if f.auth[0] != "Bearer "+tokenValue {
		t.Errorf("the host got %q", f.auth[0])
	}
	if _, err := f.client().Get("http://evil.example/"); err != nil {
		t.Error(err)
	}
	env, err := os.ReadFile(f.opts.EnvOut)
	if err != nil || !strings.Contains(string(env), "TOKEN=wpplaceholder") || strings.Contains(string(env), tokenValue) || !strings.Contains(string(env), "HTTPS_PROXY=http://127.0.0.1:") {
		t.Errorf("%s %v", env, err)
	}
	f.operators(t)
	f.stop()
	if err := <-f.done; err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(f.opts.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{tokenValue, "path", "query"} {
		if strings.Contains(string(log), never) {
			t.Errorf("the record holds %q", never)
		}
	}
	r, err := record.Read(bytes.NewReader(append(log, `{"cut`...)), "someone")
	if err != nil {
		t.Fatal(err)
	}
	if b := r.Blocked(""); len(b) != 1 || b[0].Host != "evil.example" || b[0].User != "someone" || b[0].Point != record.PointProxy || b[0].Reason != "default-deny" {
		t.Errorf("blocked %+v", b)
	}
	if fi, _ := os.Stat(f.opts.LogFile); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
}

// ask asks over the operators' socket.
func (f *fixture) ask(path string) (int, string) {
	f.t.Helper()
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", f.opts.Operator)
	}}}
	resp, err := c.Get("http://ops" + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// askUntil asks until the answer says something: a request is recorded once its
// response is out, and so the client may be the first to know.
func (f *fixture) askUntil(path, want string) {
	f.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		status, body := f.ask(path)
		if status == 200 && strings.Contains(body, want) {
			return
		}
		if status != 200 || time.Since(began) > 20*time.Second {
			f.t.Errorf("%s: %d %s", path, status, body)
			return
		}
	}
}

// operators asks over the operators' socket.
func (f *fixture) operators(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{
		"/v1/status": `"state":"enforced"`,
		"/v1/runs/" + f.in.opts.RunID + "/blocked-hosts": `"host":"evil.example"`,
		"/v1/runs/" + f.in.opts.RunID + "/egress-routes": `"route":"intercept"`,
		"/v1/runs/ffffffff/egress-routes":                `"egressRoutes":[]`,
		"/metrics":                                       `wallproof_proxy_decisions_total{verdict="deny",route="refused",reason="default-deny"} 1`,
	} {
		f.askUntil(path, want)
	}
	if fi, err := os.Stat(f.opts.Operator); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the operators' socket: %v %v", fi.Mode(), err)
	}
}

func TestEditsTakeEffectAsAWholeOrNotAtAll(t *testing.T) {
	f := newFixture(t, openPolicy)
	f.start()
	if body, err := f.get(); err != nil || body != "auth " {
		t.Fatalf("%q %v", body, err)
	}
	f.write(tokenPolicy)
	if err := <-f.edited; err != nil {
		t.Fatal(err)
	}
	if body, _ := f.get(); !strings.Contains(body, "****") {
		t.Errorf("after the edit: %q", body)
	}
	f.write("version: 1\nmode: allowlst\n")
	if err := <-f.edited; err == nil {
		t.Error("a broken edit was accepted")
	}
	if body, _ := f.get(); !strings.Contains(body, "****") {
		t.Errorf("after a broken edit: %q", body)
	}
	f.write(strings.Replace(tokenPolicy, "env: TOKEN", "env: GONE", 1))
	if err := <-f.edited; err == nil || !strings.Contains(err.Error(), "GONE") {
		t.Errorf("an edit whose secret cannot be read: %v", err)
	}
	f.write("version: 1\nname: test\nmode: allowlist\nallow: [{host: other.example}]\n")
	if err := <-f.edited; err != nil {
		t.Fatal(err)
	}
	if _, err := f.get(); err == nil {
		t.Error("what the edit took away is still reachable")
	}
	if !strings.Contains(f.out.String(), "not in force") {
		t.Errorf("messages: %s", f.out)
	}
}

func TestItRefusesToStart(t *testing.T) {
	for name, edit := range map[string]func(*Options){
		"no policy":     func(o *Options) { o.PolicyFile += ".none" },
		"nowhere":       func(o *Options) { o.Listen = nil },
		"bad resolve":   func(o *Options) { o.Resolve = []string{"example.com"} },
		"no upstream":   func(o *Options) { o.UpstreamCA += ".none" },
		"missing value": func(o *Options) { o.Secrets = &secret.Resolver{Env: func(string) (string, bool) { return "", false }} },
	} {
		f := newFixture(t, tokenPolicy)
		edit(&f.opts)
		f.opts.Ready = func(*Instance) { t.Errorf("%s: it serves", name) }
		if err := Run(t.Context(), t.Context(), f.opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestD16Lingering(t *testing.T) {
	f := newFixture(t, openPolicy+"lingering: {for: 1h, idle: 10m}\n")
	f.start()
	f.stop()
	// It goes on serving after the end of the run.
	for !strings.Contains(f.out.String(), "lingering") {
		select {
		case err := <-f.done:
			t.Fatalf("it ended: %v", err)
		default:
		}
	}
	if _, err := f.get(); err != nil {
		t.Error(err)
	}
	// The operators' page stays, and says until when.
	if status, page := f.ask("/"); status != 200 || !strings.Contains(page, "The run is over") || !strings.Contains(page, "example.com") || strings.Contains(page, "<script") {
		t.Errorf("%d %s", status, page)
	}
	f.kill()
	if err := <-f.done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", f.in.Addrs[0].String()); err == nil {
		t.Error("it is reachable after its end")
	}
	if _, err := os.Stat(f.opts.Operator); err == nil {
		t.Error("the operators' socket is left")
	}
}

// Unused it idles; a connection wakes it; the end comes all the same.
func TestD16IdleAndWoken(t *testing.T) {
	f := newFixture(t, tokenPolicy+"lingering: {for: 8s, idle: 1s}\n")
	f.start()
	f.stop()
	says := func(what string) {
		for !strings.Contains(f.out.String(), what) {
			select {
			case err := <-f.done:
				t.Fatalf("it ended without %q: %v\n%s", what, err, f.out)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	says("lingering: idle")
	if _, body := f.ask("/v1/status"); !strings.Contains(body, `"state":"idle"`) {
		t.Errorf("status: %s", body)
	}
	if body, err := f.get(); err != nil || !strings.Contains(body, "****") {
		t.Errorf("woken: %q %v", body, err)
	}
	says("lingering: awake")
	if err := <-f.done; err != nil {
		t.Error(err)
	}
	if _, err := f.get(); err == nil {
		t.Error("it serves after its end")
	}
}

// BenchmarkReload measures from a saved edit to the policy in force.
func BenchmarkReload(b *testing.B) {
	f := newFixture(b, openPolicy)
	f.start()
	for i := 0; b.Loop(); i++ {
		f.write(openPolicy + fmt.Sprintf("  - host: host-%d.example\n", i))
		if err := <-f.edited; err != nil {
			b.Fatal(err)
		}
	}
}
