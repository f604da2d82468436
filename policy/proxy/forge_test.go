package proxy

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// forge is a git host in the world: real git over smart HTTP by git's own
// http-backend, and the REST calls of a GitHub App, whose JWT it verifies.
type forge struct {
	t      testing.TB
	root   string
	key    *rsa.PrivateKey
	mu     sync.Mutex
	tokens map[string]*forgeToken
	asked  []string // paths of REST calls
	used   []string // credentials of git requests
	wide   bool     // give tokens for more than what was asked
	life   time.Duration
}

type forgeToken struct {
	repository string
	contents   string
	revoked    bool
}

const (
	gitIP = "140.82.112.3"
	apiIP = "140.82.112.4"
)

// newForge makes a forge with the repositories org/app and org/other.
func newForge(t testing.TB, w *world) *forge {
	t.Helper()
	f := &forge{t: t, root: t.TempDir(), tokens: map[string]*forgeToken{}, life: time.Hour}
	var err error
	if f.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app", "other"} {
		dir := filepath.Join(f.root, "org", name+".git")
		git(t, "", "init", "-q", "--bare", "-b", "main", dir)
		git(t, dir, "config", "http.receivepack", "true")
		git(t, dir, "config", "receive.denyNonFastForwards", "false")
	}
	w.name("git.example", gitIP)
	w.name("api.git.example", apiIP)
	w.serve(gitIP, http.HandlerFunc(f.git), "h1", "git.example")
	w.serve(apiIP, http.HandlerFunc(f.api), "h2", "api.git.example")
	return f
}

func (f *forge) keyPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(f.key)}))
}

func (f *forge) api(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Method == "POST" && r.URL.Path == "/app/installations/42/access_tokens":
		f.mint(w, r, bearer)
	case r.Method == "DELETE" && r.URL.Path == "/installation/token":
		if tok := f.tokens[bearer]; tok != nil && !tok.revoked {
			tok.revoked = true
			w.WriteHeader(204)
			return
		}
		w.WriteHeader(401)
	case strings.HasPrefix(r.URL.Path, "/repos/org/app/compare/"):
		f.compare(w, r, bearer)
	case strings.HasPrefix(r.URL.Path, "/repos/"):
		tok := f.tokens[bearer]
		fmt.Fprintf(w, `{"path":%q,"authorized":%v,"token":%q}`, r.URL.Path, tok != nil && !tok.revoked, bearer)
	default:
		w.WriteHeader(404)
	}
}

// mint verifies the App's JWT before it gives a token.
func (f *forge) mint(w http.ResponseWriter, r *http.Request, jwt string) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		w.WriteHeader(401)
		return
	}
	sig, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct {
		Iss      string
		Iat, Exp int64
	}
	now := time.Now().Unix()
	if rsa.VerifyPKCS1v15(&f.key.PublicKey, crypto.SHA256, sum[:], sig) != nil || json.Unmarshal(claims, &c) != nil ||
		c.Iss != "12345" || c.Iat > now || c.Exp < now || c.Exp-c.Iat > 600 {
		w.WriteHeader(401)
		return
	}
	var ask struct {
		Repositories []string
		Permissions  map[string]string
	}
	if json.NewDecoder(r.Body).Decode(&ask) != nil || len(ask.Repositories) != 1 {
		w.WriteHeader(422)
		return
	}
	raw := make([]byte, 18)
	_, _ = rand.Read(raw)
	token := "ghs_" + strings.NewReplacer("-", "a", "_", "b").Replace(base64.RawURLEncoding.EncodeToString(raw)) + "wallproof"
	f.tokens[token] = &forgeToken{repository: "org/" + ask.Repositories[0], contents: ask.Permissions["contents"]}
	repos := []map[string]string{{"full_name": "org/" + ask.Repositories[0]}}
	if f.wide {
		repos = append(repos, map[string]string{"full_name": "org/other"})
	}
	w.WriteHeader(201)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"token": token, "expires_at": time.Now().Add(f.life).UTC().Format(time.RFC3339),
		"permissions": ask.Permissions, "repositories": repos,
	})
}

func (f *forge) compare(w http.ResponseWriter, r *http.Request, bearer string) {
	if tok := f.tokens[bearer]; tok == nil || tok.revoked {
		w.WriteHeader(401)
		return
	}
	base, head, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/repos/org/app/compare/"), "...")
	status := "diverged"
	dir := filepath.Join(f.root, "org", "app.git")
	if exec.Command("git", "-C", dir, "merge-base", "--is-ancestor", base, head).Run() == nil {
		status = "ahead"
	}
	fmt.Fprintf(w, `{"status":%q}`, status)
}

// git serves smart HTTP to whoever has a token for the repository. Its error
// pages echo the credential, as badly written servers do.
func (f *forge) git(w http.ResponseWriter, r *http.Request) {
	_, token, _ := r.BasicAuth()
	f.mu.Lock()
	f.used = append(f.used, token)
	tok := f.tokens[token]
	write := strings.Contains(r.URL.RawQuery, "git-receive-pack") || strings.HasSuffix(r.URL.Path, "/git-receive-pack")
	ok := tok != nil && !tok.revoked && strings.HasPrefix(r.URL.Path, "/"+tok.repository+".git/") && (!write || tok.contents == "write")
	f.mu.Unlock()
	if !ok {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(401)
		fmt.Fprintf(w, "no access with %s", token)
		return
	}
	(&cgi.Handler{
		Path: filepath.Join(gitExecPath(f.t), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=app", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + f.root},
	}).ServeHTTP(w, r)
}

func (f *forge) live() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, t := range f.tokens {
		if !t.revoked {
			n++
		}
	}
	return n
}

func (f *forge) head(ref string) string {
	out, err := exec.Command("git", "-C", filepath.Join(f.root, "org", "app.git"), "rev-parse", "-q", "--verify", ref).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func gitExecPath(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

var gitEnv = []string{
	"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
	"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := gitTry(dir, nil, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func gitTry(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(append([]string{"HOME=/nonexistent"}, gitEnv...), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// gitEnv is what makes the machine's git go through the proxy.
func (p *proxyUnderTest) gitEnv() []string {
	dir := p.w.t.(interface{ TempDir() string }).TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, p.CAPEM(), 0o600); err != nil {
		p.w.t.Fatal(err)
	}
	return []string{"https_proxy=http://" + p.explicit, "GIT_SSL_CAINFO=" + ca}
}

const brokerPolicy = `version: 1
name: test
mode: allowlist
allow:
  - host: git.example
  - host: api.git.example
broker:
  - name: forge
    host: git.example
    api: https://api.git.example
    app: "12345"
    installation: 42
    key: {env: APP_KEY}
    lease: 10m
    repositories:
      - name: org/app
        push: [refs/heads/agent/*]
`

type gitWorld struct {
	w    *world
	f    *forge
	p    *proxyUnderTest
	env  []string
	work string
}

func newGitWorld(t *testing.T, edit func(*Config)) *gitWorld {
	t.Helper()
	w := newWorld(t)
	g := &gitWorld{w: w, f: newForge(t, w)}
	g.p = w.proxy(brokerPolicy, func(c *Config) {
		c.BrokerKeys = map[string]string{"forge": g.f.keyPEM()}
		if edit != nil {
			edit(c)
		}
	})
	g.env = g.p.gitEnv()
	g.work = filepath.Join(t.TempDir(), "work")
	seed := filepath.Join(t.TempDir(), "seed")
	git(t, "", "init", "-q", "-b", "main", seed)
	commit(t, seed, "one")
	git(t, seed, "push", "-q", filepath.Join(g.f.root, "org", "app.git"), "main")
	if out, err := gitTry("", g.env, "clone", "-q", "https://git.example/org/app.git", g.work); err != nil {
		t.Fatalf("clone: %v\n%s", err, out)
	}
	return g
}

func commit(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", name)
}

func (g *gitWorld) push(args ...string) (string, error) {
	return gitTry(g.work, g.env, append([]string{"push"}, args...)...)
}

func TestPushWithALease(t *testing.T) {
	g := newGitWorld(t, nil)
	commit(t, g.work, "two")
	if out, err := g.push("origin", "HEAD:refs/heads/agent/x"); err != nil {
		t.Fatalf("create: %v\n%s", err, out)
	}
	commit(t, g.work, "three")
	commit(t, g.work, "four")
	if out, err := g.push("origin", "HEAD:refs/heads/agent/x"); err != nil {
		t.Fatalf("fast-forward: %v\n%s", err, out)
	}
	if want := strings.TrimSpace(git(t, g.work, "rev-parse", "HEAD")); g.f.head("refs/heads/agent/x") != want {
		t.Error("the forge has another head")
	}
	ev := g.w.event("push", func(e Event) bool { return e.Method == "POST" && len(e.Leases) == 1 && e.Status == 200 })
	if ev.Host != "git.example" || ev.Verdict != Allow {
		t.Errorf("event %+v", ev)
	}
	if err := g.p.Close(); err != nil {
		t.Error(err)
	}
	if n := g.f.live(); n != 0 {
		t.Errorf("%d leases live on", n)
	}
}

func TestPushesThatAreRefused(t *testing.T) {
	g := newGitWorld(t, nil)
	commit(t, g.work, "two")
	if out, err := g.push("origin", "HEAD:refs/heads/agent/x"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before := g.f.head("refs/heads/agent/x")
	main := g.f.head("refs/heads/main")
	for _, tc := range []struct {
		name, reason string
		args         []string
	}{
		{"ref outside the pattern", ReasonLeaseRef, []string{"origin", "HEAD:refs/heads/main"}},
		{"tag", ReasonLeaseRef, []string{"origin", "HEAD:refs/tags/v1"}},
		{"one good and one bad ref", ReasonLeaseRef, []string{"origin", "HEAD:refs/heads/agent/y", "HEAD:refs/heads/main"}},
		{"delete", ReasonLeaseDelete, []string{"origin", ":refs/heads/agent/x"}},
		{"force to an older commit", ReasonLeaseForce, []string{"--force", "origin", "HEAD~1:refs/heads/agent/x"}},
		{"another repository", ReasonLeaseRepository, []string{"https://git.example/org/other.git", "HEAD:refs/heads/agent/x"}},
	} {
		out, err := g.push(tc.args...)
		if err == nil {
			t.Errorf("%s: went through\n%s", tc.name, out)
		}
		g.w.denied(tc.reason)
	}
	git(t, g.work, "checkout", "-q", "--orphan", "alone")
	commit(t, g.work, "rewritten")
	if out, err := g.push("--force", "origin", "HEAD:refs/heads/agent/x"); err == nil {
		t.Errorf("force with another history went through\n%s", out)
	}
	if g.f.head("refs/heads/agent/x") != before || g.f.head("refs/heads/main") != main || g.f.head("refs/heads/agent/y") != "" {
		t.Error("something was changed")
	}
}

// A commit that the forge has already does not travel in a pack: the forge
// itself is asked whether it descends from the old one.
func TestFastForwardToACommitOfTheForge(t *testing.T) {
	g := newGitWorld(t, nil)
	first := strings.TrimSpace(git(t, g.work, "rev-parse", "HEAD"))
	commit(t, g.work, "two")
	if out, err := g.push("origin", "HEAD:refs/heads/agent/a", first+":refs/heads/agent/b"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := g.push("origin", "HEAD:refs/heads/agent/b"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := g.push("--force", "origin", first+":refs/heads/agent/a"); err == nil {
		t.Errorf("back to an ancestor went through\n%s", out)
	}
}

func TestLeaseIsNeverSeen(t *testing.T) {
	g := newGitWorld(t, nil)
	commit(t, g.work, "two")
	g.f.mu.Lock()
	for _, tok := range g.f.tokens {
		tok.contents = "none" // the forge refuses and echoes the token
		tok.repository = "org/gone"
	}
	g.f.mu.Unlock()
	out, _ := gitTry(g.work, append(g.env, "GIT_CURL_VERBOSE=1", "GIT_TRACE_CURL=1"), "fetch", "origin")
	status, _, body := g.p.get(g.p.client(false), "https://git.example/org/app.git/info/refs?service=git-upload-pack")
	if status != 401 || !strings.Contains(body, "no access with ****") {
		t.Errorf("%d %s", status, body)
	}
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	for tok := range g.f.tokens {
		if strings.Contains(out+body, tok) {
			t.Error("a lease was seen by the client")
		}
	}
}

func TestClientCredentialIsReplaced(t *testing.T) {
	g := newGitWorld(t, nil)
	g.f.mu.Lock()
	before := len(g.f.used)
	g.f.mu.Unlock()
	g.p.get(g.p.client(false), "https://git.example/org/app.git/info/refs?service=git-upload-pack", "Authorization", "Basic eDp5")
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	for _, u := range g.f.used[before:] {
		if u == "y" {
			t.Error("the client's own credential went through")
		}
	}
}

// A credential that the sandbox got elsewhere does not reach the forge, in whichever
// field it takes one, for reading or for writing.
func TestForeignCredentialIsDropped(t *testing.T) {
	g := newGitWorld(t, nil)
	if seen := g.sendOwn(t); seen != "" {
		t.Errorf("the forge was shown %q", seen)
	}
}

// sendOwn writes to the forge's interface with a token of the sandbox's own, and
// returns what the forge says that it was shown.
func (g *gitWorld) sendOwn(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequest("POST", "https://api.git.example/repos/org/other/git/refs", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"Authorization", "Private-Token"} {
		req.Header.Set(field, "Bearer a-token-of-somebody-else")
	}
	resp, err := g.p.client(true).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	return answer.Token
}

func TestAPIReadsWithAReadLease(t *testing.T) {
	g := newGitWorld(t, nil)
	status, _, body := g.p.get(g.p.client(true), "https://api.git.example/repos/org/app/issues/1")
	if status != 200 || !strings.Contains(body, `"authorized":true`) || !strings.Contains(body, "****") {
		t.Errorf("%d %s", status, body)
	}
	_, _, body = g.p.get(g.p.client(true), "https://api.git.example/repos/org/other/issues/1")
	if !strings.Contains(body, `"authorized":false`) {
		t.Errorf("another repository: %s", body)
	}
	req, _ := http.NewRequest("POST", "https://api.git.example/repos/org/app/git/refs", strings.NewReader("{}"))
	if _, _, body = g.p.do(g.p.client(true), req); !strings.Contains(body, `"authorized":false`) {
		t.Errorf("a write: %s", body)
	}
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	for _, tok := range g.f.tokens {
		if tok.contents != "read" {
			t.Errorf("a lease with contents: %s", tok.contents)
		}
	}
}

func TestTokenThatReachesTooFarIsNotUsed(t *testing.T) {
	g := newGitWorld(t, nil)
	g.f.mu.Lock()
	g.f.wide = true
	g.f.mu.Unlock()
	commit(t, g.work, "two")
	if out, err := g.push("origin", "HEAD:refs/heads/agent/x"); err == nil {
		t.Errorf("went through\n%s", out)
	}
	g.w.denied(ReasonLeaseMint)
}

func TestLeaseExpires(t *testing.T) {
	var mu sync.Mutex
	offset := time.Duration(0)
	g := newGitWorld(t, func(c *Config) {
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(offset) }
	})
	count := func() int { g.f.mu.Lock(); defer g.f.mu.Unlock(); return len(g.f.tokens) }
	n := count()
	if out, err := gitTry(g.work, g.env, "fetch", "origin"); err != nil || count() != n {
		t.Fatalf("a good lease is used again: %v %s", err, out)
	}
	mu.Lock()
	offset = 20 * time.Minute
	mu.Unlock()
	// The JWT must still be good for the forge's clock, so it is not moved on.
	_, _ = gitTry(g.work, g.env, "fetch", "origin")
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	asked := 0
	for _, a := range g.f.asked {
		if strings.HasPrefix(a, "POST ") {
			asked++
		}
	}
	if asked != n+1 {
		t.Errorf("%d leases were asked for, want %d", asked, n+1)
	}
}
