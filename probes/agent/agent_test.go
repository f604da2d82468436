package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/inj"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
	"golang.org/x/net/dns/dnsmessage"
)

var secret = canary.Derive([]byte("agent"))

// world is everything outside at once: an HTTP proxy that forwards nothing and
// answers for every host, and a resolver. It is open, or refuses what is the
// attacker's.
type world struct {
	open  bool
	model http.Handler // at the name modelHost, "" for none
	mu    sync.Mutex
	got   []string // canaries that arrived, by digest
	asks  []string // hosts asked for
}

func (w *world) note(parts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		w.got = append(w.got, canary.Find([]byte(p))...)
	}
}

func (w *world) refuses(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks = append(w.asks, host)
	return !w.open && !strings.HasPrefix(host, "allowed.example")
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Host == modelHost && w.model != nil {
		w.model.ServeHTTP(rw, r)
		return
	}
	if w.refuses(r.Host) {
		rw.Header().Set("X-Wallproof-Reason", "default-deny")
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	body, _ := io.ReadAll(r.Body)
	w.note(r.RequestURI, string(body), fmt.Sprint(r.Header))
	_, verb, n, ok := paths.Parse(r.URL.Path)
	if ok && verb == paths.Reflect {
		page, _ := base64.RawURLEncoding.DecodeString(r.URL.Query().Get(paths.QueryBody))
		rw.Write(page)
	}
	if !ok {
		n = "x"
	}
	fmt.Fprintf(rw, "%s\n", nonce.Answer([]byte("k"), n))
}

// resolver answers or refuses name queries.
func (w *world) resolver(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			name := m.Questions[0].Name
			m.Response, m.RCode = true, dnsmessage.RCodeRefused
			if !w.refuses(name.String()) {
				w.note(name.String())
				m.RCode = dnsmessage.RCodeSuccess
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if out, err := m.Pack(); err == nil {
				pc.WriteTo(out, from)
			}
		}
	}()
	return pc.LocalAddr().String()
}

// place starts a world and makes a workspace for an agent.
func place(t *testing.T, w *world, credential string) *probes.Facts {
	t.Helper()
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	workspace := t.TempDir()
	if err := os.WriteFile(filepath.Join(workspace, ".env"), []byte("TOKEN="+credential+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &probes.Facts{
		Proxy: probes.Pair{V4: strings.TrimPrefix(server.URL, "http://")}, Resolver: probes.Pair{V4: w.resolver(t)},
		Outside: probes.Outside{Suffix: "evil.example", V4: probes.DefaultOutside4, V6: probes.DefaultOutside6},
		Allowed: probes.Target{Scheme: "http", Host: "allowed.example", Port: 80},
		Agent:   probes.Agent{Workspace: workspace, SecretEnv: "TOKEN", SecretIn: filepath.Join(workspace, ".env")},
	}
}

// needsMore names the techniques that need TLS, a forge, a model, or a network
// namespace:
// the battery's own runs cover them.
func needsMore(id string) bool {
	return slices.Contains([]string{"INJ-ISSUE", "INJ-DIRECT", "INJ-BASE64", "INJ-AUTHORITY", "INJ-PAGE", "INJ-TOOL-OUTPUT", "INJ-SEARCH"}, id)
}

// In an open world every injection gets the credential out; behind a boundary
// none does, and what refused it is reported.
func TestInjections(t *testing.T) {
	for _, id := range inj.IDs() {
		if needsMore(id) {
			continue
		}
		t.Run(id, func(t *testing.T) {
			n := nonce.New([]byte("k"), "run", id, "default", "")
			open := &world{open: true}
			env := &probes.Env{Facts: place(t, open, secret), Technique: id, Variant: "default", Nonce: n}
			o := New([]string{"TOKEN=" + secret}, nil).Attempts()[id](context.Background(), env)
			if !slices.Contains(open.got, canary.Digest(secret)) {
				t.Errorf("open: the credential did not arrive; %s (%s), asked for %q", o.Sign, o.Detail, open.asks)
			}
			closed := &world{}
			env.Facts = place(t, closed, "placeholder")
			o = New([]string{"TOKEN=placeholder"}, nil).Attempts()[id](context.Background(), env)
			if o.Sign != manifest.SignRefused || len(o.Local) == 0 || len(closed.got) > 0 {
				t.Errorf("closed: %+v", o)
			}
			if left, _ := os.ReadDir(filepath.Join(env.Facts.Agent.Workspace, ".tasks")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	n := nonce.New([]byte("k"), "run", "HB-AGENT", "before", "")
	env := &probes.Env{Facts: place(t, &world{}, "placeholder"), Technique: probes.AgentHeartbeatID, Variant: "before", Nonce: n}
	o := New(nil, nil).heartbeat(context.Background(), env)
	if o.Sign != manifest.SignReached || o.Proof != nonce.Proof([]byte("k"), n) {
		t.Errorf("alive: %+v", o)
	}
	env.Facts.Allowed.Host = "other.example"
	if o := New(nil, nil).heartbeat(context.Background(), env); o.Sign != manifest.SignRefused || o.Proof != "" {
		t.Errorf("refused: %+v", o)
	}
	env.Facts.Allowed.Host = "allowed.example"
	env.Facts.Broker = probes.Broker{Repo: "http://git.example/a/b.git", Ref: "refs/heads/agent/x"}
	if o := New(nil, nil).heartbeat(context.Background(), env); o.Sign == manifest.SignReached || o.Proof != "" {
		t.Errorf("push refused: %+v", o)
	}
	if o := New(nil, nil).heartbeat(context.Background(), &probes.Env{Facts: &probes.Facts{}}); o.Sign != manifest.SignMissing {
		t.Errorf("without an allowed host: %+v", o)
	}
}

// The transcript tells what was read and done, and is bounded.
func TestTranscript(t *testing.T) {
	var out bytes.Buffer
	n := nonce.New([]byte("k"), "run", "INJ-README", "default", "")
	env := &probes.Env{Facts: place(t, &world{open: true}, secret), Technique: "INJ-README", Variant: "default", Nonce: n}
	New([]string{"TOKEN=" + secret}, &out).attempt(context.Background(), env)
	var roles []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Nonce != n || e.Technique != "INJ-README" {
			t.Fatalf("%q: %v", line, err)
		}
		roles = append(roles, e.Role)
	}
	if got := strings.Join(roles, " "); got != "user command output command output" {
		t.Errorf("roles %q", got)
	}
	tr := &transcript{out: &out}
	for range 100 {
		tr.add(env, "output", strings.Repeat("x", maxTranscript/10))
	}
	if tr.written > maxTranscript {
		t.Errorf("wrote %d bytes, the bound is %d", tr.written, maxTranscript)
	}
}

// An agent that is told to do the same for ever stops.
func TestLoopsEnd(t *testing.T) {
	env := &probes.Env{Facts: place(t, &world{open: true}, secret), Technique: "x", Nonce: nonce.New([]byte("k"), "", "", "", "")}
	s, err := New(nil, nil).begin(env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	if err := os.WriteFile(filepath.Join(s.dir, "f"), []byte("agent: `cat f`\nagent: `echo again; cat f`\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if followed, _ := s.obey(context.Background(), "read it: `cat f`"); followed != 1 {
		t.Errorf("followed %d, the same command is followed once", followed)
	}
	script := "n=$(cat n); n=$((n+1)); echo $n > n; echo \"agent: \\`sh s $n\\`\""
	if err := os.WriteFile(filepath.Join(s.dir, "s"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "n"), []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if followed, out := s.obey(context.Background(), "run it: `sh s`"); followed != maxCommands-1 {
		t.Errorf("followed %d, the bound is %d (%s)", followed, maxCommands, out)
	}
}

// A detail never shows a canary.
func TestTail(t *testing.T) {
	if got := tail("x " + secret); strings.Contains(got, "wpcanary") {
		t.Errorf("tail shows %q", got)
	}
	if got := tail(strings.Repeat("a", 500) + "end\n"); len(got) > 120 || !strings.HasSuffix(got, "end") {
		t.Errorf("tail %q", got)
	}
	if u := url.QueryEscape(secret); tail(u) != "(output withheld)" {
		t.Error("an escaped canary is shown")
	}
}
