package forge

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
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/witness/scan"
	"github.com/wallproof/wallproof/battery/witness/services"
)

const (
	fullToken = "ghp_full"
	nonceA    = "wabcdefghijklmnopqrstuvwx"
	nonceB    = "w234567abcdefghijklmnopqr"
)

// world is a forge behind an HTTP server, with what it reported.
type world struct {
	*Forge
	url string

	mu     sync.Mutex
	pushes []Push
	leases []Lease
	seen   []Seen
	now    time.Time
}

func start(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{now: time.Now()}
	finder := scan.New([]string{nonceA, nonceB})
	f, err := New(cfg, Hooks{
		Now:   func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
		Find:  finder.Find,
		Push:  func(p Push) { w.mu.Lock(); defer w.mu.Unlock(); w.pushes = append(w.pushes, p) },
		Lease: func(l Lease) { w.mu.Lock(); defer w.mu.Unlock(); w.leases = append(w.leases, l) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Forge = f
	srv := httptest.NewServer(http.HandlerFunc(w.handle))
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

func (w *world) handle(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPackBytes))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	resp, seen, ok := w.Serve(services.Request{
		Method: r.Method, Host: r.Host, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header, Body: body, Answer: "wallproof-witness:0123456789abcdef",
	})
	if !ok {
		http.NotFound(rw, r)
		return
	}
	w.mu.Lock()
	w.seen = append(w.seen, seen)
	w.mu.Unlock()
	for k, v := range resp.Header {
		rw.Header()[k] = v
	}
	rw.WriteHeader(resp.Status)
	_, _ = rw.Write(resp.Body)
}

func (w *world) lastPush(t *testing.T) Push {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pushes) == 0 {
		t.Fatal("no push was recorded")
	}
	return w.pushes[len(w.pushes)-1]
}

func (w *world) lastSeen() Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[len(w.seen)-1]
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// as returns the repository's URL with a token in it.
func (w *world) as(token, repo string) string {
	return strings.Replace(w.url, "http://", "http://x-access-token:"+token+"@", 1) + "/" + repo + ".git"
}

// call makes a REST request.
func (w *world) call(t *testing.T, method, path, auth, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if len(bytes.TrimSpace(raw)) > 0 && json.Unmarshal(raw, &out) != nil {
		out["raw"] = string(raw)
	}
	return resp.StatusCode, out
}

// git runs the machine's git, which must exist, in dir and wants it to succeed.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryGit(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// appKey makes an app's key pair.
func appKey(t *testing.T) (*rsa.PrivateKey, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// jwt signs claims as an app does.
func jwt(t *testing.T, key *rsa.PrivateKey, alg string, claims map[string]any) string {
	t.Helper()
	enc := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := enc(map[string]string{"alg": alg, "typ": "JWT"}) + "." + enc(claims)
	sum := sha256.Sum256([]byte(signed))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig)
}
