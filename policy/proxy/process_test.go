package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wallproof/wallproof/internal/procs"
)

// processArg makes the test binary be the proxy's process.
const processArg = "wallproof-test-proxy-process"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == processArg {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// startProcess starts the real process with an explicit listener, and
// returns it with the listener's address.
func (w *world) startProcess(t *testing.T, policyDoc string, edit func(*Config)) (*Process, string) {
	t.Helper()
	f, err := procs.ListenIn("", "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	// The process has no test dialer: addresses of the world are pinned to
	// where they really listen.
	pins := map[string]string{}
	for name, addrs := range w.names {
		for _, port := range []string{"80", "443"} {
			if p := w.places[net.JoinHostPort(addrs[0].String(), port)]; p != nil {
				pins[net.JoinHostPort(name, port)] = p.Addr().String()
			}
		}
	}
	cfg := Config{RunID: "0123abcd", Policy: policyDoc, Upstream: Upstream{RootsPEM: w.caPEM, Resolve: pins}}
	if edit != nil {
		edit(&cfg)
	}
	p, err := Start(t.Context(), Launch{
		Argv: []string{"proxy", processArg}, Config: cfg, OnEvent: w.record,
		Listeners: []Listener{{KindExplicit, f}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = p.Stop(ctx)
	})
	return p, addr
}

// loopbackPolicy opens 127.0.0.1, where the world of these tests really is.
func loopbackPolicy(doc string) string {
	return strings.Replace(doc, "allow:\n", "allow:\n  - cidr: 127.0.0.0/8\n", 1)
}

func processClient(t *testing.T, p *Process, addr string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(p.Ready.CAPEM))
	tr := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: addr}),
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		DisableKeepAlives: true,
	}
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func TestTheProcessInjectsReloadsAndStops(t *testing.T) {
	w, s := basicWorld(t)
	p, addr := w.startProcess(t, loopbackPolicy(basicPolicy), withToken)
	if p.Ready.Enforcement != "enforced" || !strings.HasPrefix(p.Ready.PolicyDigest, "sha256:") {
		t.Errorf("ready %+v", p.Ready)
	}
	client := processClient(t, p, addr)
	resp, err := client.Get("https://token.example/x")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if s.last(t).Header.Get("Authorization") != "Bearer "+testValue || strings.Contains(string(body), testValue) {
		t.Errorf("nothing injected, or the secret came back: %s", body)
	}
	ev := w.event("intercept", func(e Event) bool { return e.Route == RouteIntercept })
	if ev.Injected[0] != "TOKEN" || ev.RunID != "0123abcd" {
		t.Errorf("event %+v", ev)
	}
	narrower := strings.Replace(loopbackPolicy(basicPolicy), "  - host: other.example\n", "", 1)
	if err := p.Reload(t.Context(), Update{Policy: &narrower}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get("https://other.example/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("after the edit: %v", err)
	}
	broken := "version: 1\nmode: allowlst\n"
	if err := p.Reload(t.Context(), Update{Policy: &broken}); err == nil {
		t.Error("a broken policy was accepted")
	}
	if _, err := client.Get("https://plain.example/"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the old policy is not in force: %v", err) // passed on: issued by the world
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	w.event("stopped", func(e Event) bool { return e.Type == EventStopped })
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("somebody still answers")
	}
}

func TestKilledProcessLeavesNoWayOut(t *testing.T) {
	w, _ := basicWorld(t)
	p, addr := w.startProcess(t, loopbackPolicy(basicPolicy), withToken)
	proc, err := os.FindProcess(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("somebody still answers")
	}
}

func TestProcessRefusesABadConfiguration(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"no secret":    func(c *Config) {},
		"short secret": func(c *Config) { c.Secrets = []Secret{{Name: "TOKEN", Value: "short"}} },
		"no policy":    func(c *Config) { c.Policy = "" },
		"bad roots":    func(c *Config) { withToken(c); c.Upstream.RootsPEM = "x" },
	} {
		cfg := Config{RunID: "0123abcd", Policy: basicPolicy}
		edit(&cfg)
		f, err := procs.ListenIn("", "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, err := Start(t.Context(), Launch{Argv: []string{"proxy", processArg}, Config: cfg, Listeners: []Listener{{KindExplicit, f}}})
		if err == nil {
			_ = p.Stop(t.Context())
			t.Errorf("%s: it started", name)
		} else if strings.Contains(err.Error(), `"short"`) {
			t.Errorf("%s: the error quotes the secret", name)
		}
		_ = f.Close()
	}
}

// The process's memory and environment are no business of its own user's other
// processes, and its arguments hold no secret.
func TestProcessHidesItself(t *testing.T) {
	w, _ := basicWorld(t)
	p, _ := w.startProcess(t, loopbackPolicy(basicPolicy), withToken)
	dir := "/proc/" + strconv.Itoa(p.Pid())
	for _, file := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), testValue) {
			t.Errorf("%s holds the secret", file)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Ready.Confinement.Seccomp {
		t.Errorf("confinement %+v", p.Ready.Confinement)
	}
	for _, line := range []string{"Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n"} {
		if !strings.Contains(string(b), line) {
			t.Errorf("status lacks %q:\n%s", line, b)
		}
	}
	p.inItsOwnSandbox(t)
}

// inItsOwnSandbox checks D14 from outside: namespaces that this process is not in, the
// first process there, and no file at all.
func (p *Process) inItsOwnSandbox(t *testing.T) {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(p.Pid())
	f := p.Ready.Confinement
	for _, kind := range []string{"user", "mnt", "pid", "ipc", "uts"} {
		ours, err1 := os.Readlink("/proc/self/ns/" + kind)
		theirs, err2 := os.Readlink(dir + "/ns/" + kind)
		if err1 != nil || err2 != nil || ours == theirs || !slices.Contains(f.Namespaces, kind) {
			t.Errorf("namespace %s: %s, ours is %s, reported %v (%v, %v)", kind, theirs, ours, f.Namespaces, err1, err2)
		}
	}
	b, err := os.ReadFile(dir + "/status")
	if err != nil || !strings.Contains(string(b), "\t1\nNSpgid") {
		t.Errorf("it is not the first process of its namespace: %v\n%s", err, b)
	}
	files, err := os.ReadDir(dir + "/root/")
	if err != nil || len(files) != 0 || !f.EmptyRoot {
		t.Errorf("its root holds %v, %v; reported %v", files, err, f.EmptyRoot)
	}
	if err := os.WriteFile(dir+"/root/x", nil, 0o600); err == nil {
		t.Error("its root can be written to")
	}
	mounts, err := os.ReadFile(dir + "/mounts")
	if err != nil || strings.Count(string(mounts), "\n") != 1 {
		t.Errorf("its mounts: %v\n%s", err, mounts)
	}
}

func TestBatcherKeepsOrderAndLosesNothing(t *testing.T) {
	var mu sync.Mutex
	var got []uint64
	b := newBatcher(func(batch []Event) error {
		mu.Lock()
		defer mu.Unlock()
		if len(batch) > maxBatch {
			t.Errorf("a batch of %d", len(batch))
		}
		for _, e := range batch {
			got = append(got, e.ID)
		}
		return nil
	})
	b.start()
	const n = 20000
	for i := range uint64(n) {
		b.add(Event{ID: i})
	}
	b.close()
	if len(got) != n {
		t.Fatalf("%d of %d", len(got), n)
	}
	for i, id := range got {
		if id != uint64(i) {
			t.Fatalf("event %d at place %d", id, i)
		}
	}
}
