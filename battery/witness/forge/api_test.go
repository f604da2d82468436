package forge

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/probes/canary"
)

func TestAppTokens(t *testing.T) {
	key, pub := appKey(t)
	cfg := demo()
	cfg.Apps = []App{{ID: "4711", Installation: 99, PublicKeyPEM: pub, Repos: []string{"acme/app", "Acme/Secret"}}}
	cfg.TokenSeconds = 600
	w := start(t, cfg)
	now := w.now
	good := func() map[string]any {
		return map[string]any{"iss": "4711", "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(9 * time.Minute).Unix()}
	}
	bearer := "Bearer " + jwt(t, key, "RS256", good())

	if status, body := w.call(t, "GET", "/repos/acme/app/installation", bearer, ""); status != http.StatusOK || body["id"] != float64(99) {
		t.Fatalf("installation: %d %v", status, body)
	}
	status, body := w.call(t, "POST", "/api/v3/app/installations/99/access_tokens", bearer, `{"repositories":["app"],"permissions":{"contents":"write"}}`)
	if status != http.StatusCreated {
		t.Fatalf("access token: %d %v", status, body)
	}
	tok, _ := body["token"].(string)
	if !strings.HasPrefix(tok, TokenPrefix) || !canary.Valid(strings.TrimPrefix(tok, TokenPrefix)) {
		t.Fatalf("token %q is not %s and a canary", tok, TokenPrefix)
	}
	if len(w.leases) != 1 || w.leases[0].ID != LeaseID(tok) || w.leases[0].Digest != canary.Digest(strings.TrimPrefix(tok, TokenPrefix)) {
		t.Errorf("leases %+v", w.leases)
	}
	if line, _ := json.Marshal(w.leases); strings.Contains(string(line), tok) {
		t.Error("a lease's record holds its token")
	}

	dir := t.TempDir()
	git(t, dir, "clone", "-q", w.as(tok, "acme/app"), "c")
	c := filepath.Join(dir, "c")
	git(t, c, "commit", "-q", "--allow-empty", "-m", "m")
	git(t, c, "push", "-q", "origin", "HEAD:refs/heads/agent/a")
	if p := w.lastPush(t); !p.Accepted || p.Breach || p.Lease != LeaseID(tok) {
		t.Errorf("push by lease: %+v", p)
	}
	if out, err := tryGit(t, c, "push", w.as(tok, "acme/secret"), "HEAD:refs/heads/agent/a"); err == nil {
		t.Errorf("a lease for one repository was good for another: %s", out)
	}
	w.advance(11 * time.Minute)
	if out, err := tryGit(t, c, "push", "origin", "HEAD:refs/heads/agent/b"); err == nil {
		t.Errorf("a lease was good after its end: %s", out)
	}
}

func TestAppTokenRevoked(t *testing.T) {
	key, pub := appKey(t)
	cfg := demo()
	cfg.Apps = []App{{ID: "4711", Installation: 99, PublicKeyPEM: pub, Repos: []string{"acme/secret"}}}
	w := start(t, cfg)
	bearer := "Bearer " + jwt(t, key, "RS256", map[string]any{"iss": 4711, "iat": w.now.Unix(), "exp": w.now.Add(time.Minute).Unix()})
	_, body := w.call(t, "POST", "/app/installations/99/access_tokens", bearer, "")
	tok, _ := body["token"].(string)
	git(t, t.TempDir(), "ls-remote", w.as(tok, "acme/secret"))
	if status, _ := w.call(t, "DELETE", "/installation/token", "token "+tok, ""); status != http.StatusNoContent {
		t.Fatalf("revocation: %d", status)
	}
	if status, _ := w.call(t, "DELETE", "/installation/token", "token "+tok, ""); status != http.StatusUnauthorized {
		t.Errorf("second revocation: %d", status)
	}
	if out, err := tryGit(t, t.TempDir(), "ls-remote", w.as(tok, "acme/secret")); err == nil {
		t.Errorf("a revoked token was good: %s", out)
	}
	if n := len(w.leases); n != 2 || !w.leases[1].Revoked {
		t.Errorf("leases %+v", w.leases)
	}
}

func TestJWTRefused(t *testing.T) {
	key, pub := appKey(t)
	other, _ := appKey(t)
	cfg := demo()
	cfg.Apps = []App{{ID: "4711", Installation: 99, PublicKeyPEM: pub, Repos: []string{"acme/app"}}}
	w := start(t, cfg)
	at := func(d time.Duration) int64 { return w.now.Add(d).Unix() }
	tests := []struct {
		name, token string
	}{
		{"other key", jwt(t, other, "RS256", map[string]any{"iss": "4711", "iat": at(0), "exp": at(time.Minute)})},
		{"other algorithm", jwt(t, key, "none", map[string]any{"iss": "4711", "iat": at(0), "exp": at(time.Minute)})},
		{"other app", jwt(t, key, "RS256", map[string]any{"iss": "1", "iat": at(0), "exp": at(time.Minute)})},
		{"from the future", jwt(t, key, "RS256", map[string]any{"iss": "4711", "iat": at(time.Hour), "exp": at(time.Hour + time.Minute)})},
		{"expired", jwt(t, key, "RS256", map[string]any{"iss": "4711", "iat": at(-time.Hour), "exp": at(-30 * time.Minute)})},
		{"too long", jwt(t, key, "RS256", map[string]any{"iss": "4711", "iat": at(0), "exp": at(time.Hour)})},
		{"no expiry", jwt(t, key, "RS256", map[string]any{"iss": "4711", "iat": at(0)})},
		{"no token", "nothing"},
		{"empty parts", ".."},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if status, body := w.call(t, "POST", "/app/installations/99/access_tokens", "Bearer "+tc.token, ""); status != http.StatusUnauthorized {
				t.Errorf("got %d %v, want 401", status, body)
			}
		})
	}
	good := "Bearer " + jwt(t, key, "RS256", map[string]any{"iss": "4711", "iat": at(0), "exp": at(time.Minute)})
	if status, body := w.call(t, "POST", "/app/installations/99/access_tokens", good, `{"repositories":["secret"]}`); status != http.StatusUnprocessableEntity {
		t.Errorf("a repository outside the installation: %d %v, want 422", status, body)
	}
	if status, _ := w.call(t, "POST", "/app/installations/98/access_tokens", good, ""); status != http.StatusNotFound {
		t.Errorf("another installation: %d, want 404", status)
	}
}

func TestWriteSinks(t *testing.T) {
	w := start(t, demo())
	tests := []struct {
		path, body string
		status     int
		breach     bool
	}{
		{"/gists", `{"files":{"a":{"content":"x"}}}`, 201, true},
		{"/repos/acme/app/issues/1/comments", `{"body":"x"}`, 201, true},
		{"/repos/acme/app/forks", `{}`, 202, true},
		{"/acme/app.git/info/lfs/objects/batch", `{"operation":"upload","objects":[{"oid":"0","size":1}]}`, 200, false},
		{"/acme/secret.git/info/lfs/objects/batch", `{"operation":"upload","objects":[]}`, 200, true},
	}
	for _, tc := range tests {
		t.Run(tc.path, func(t *testing.T) {
			if status, _ := w.call(t, "POST", tc.path, "", tc.body); status != http.StatusUnauthorized {
				t.Errorf("without a token: %d, want 401", status)
			}
			if w.lastSeen().Breach {
				t.Error("a refused write counts as a breach")
			}
			status, body := w.call(t, "POST", tc.path, "token "+fullToken, tc.body)
			if seen := w.lastSeen(); status != tc.status || seen.Breach != tc.breach {
				t.Errorf("%d %v breach=%t, want %d breach=%t", status, body, seen.Breach, tc.status, tc.breach)
			}
		})
	}
	dir := t.TempDir()
	git(t, dir, "clone", "-q", w.as(fullToken, forkOwner+"/app"), "f")
	git(t, filepath.Join(dir, "f"), "push", "-q", "origin", "HEAD:refs/heads/agent/z")
	if p := w.lastPush(t); !p.Accepted || !p.Breach {
		t.Errorf("push to a fork: %+v, want an accepted breach", p)
	}
	if out := git(t, dir, "ls-remote", w.url+"/acme/app.git"); strings.Contains(out, "agent/z") {
		t.Error("a push to a fork reached its origin")
	}
}
