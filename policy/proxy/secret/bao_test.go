//go:build stack

package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/wallproof/wallproof/policy"
)

// baoBinary finds a server of OpenBao or Vault: WALLPROOF_BAO, or in the cache of
// internal/tools/stack.
func baoBinary() string {
	if path := os.Getenv("WALLPROOF_BAO"); path != "" {
		return path
	}
	dir := os.Getenv("WALLPROOF_STACK")
	if cache, err := os.UserCacheDir(); dir == "" && err == nil {
		dir = filepath.Join(cache, "wallproof", "stack")
	}
	for _, pattern := range []string{"bao-*", "openbao-*", "vault-*"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// bao is a real server, in its development mode: everything in memory.
type bao struct {
	t          *testing.T
	addr, root string
}

func startBao(t *testing.T, path string) *bao {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	b := &bao{t: t, addr: "http://" + at, root: "wallproof-test-root"}
	var out bytes.Buffer
	cmd := exec.Command(path, "server", "-dev", "-dev-no-store-token", "-dev-listen-address="+at, "-dev-root-token-id="+b.root)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 300 {
		if resp, err := http.Get(b.addr + "/v1/sys/health"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == 200 {
				return b
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the server is not ready after 30 s:\n%s", out.String())
	return nil
}

// do sends a request as root and returns what came.
func (b *bao) do(method, path string, body any) map[string]any {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequest(method, b.addr+"/v1/"+path, bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", b.root)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, raw)
	}
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return out
}

// A real server gives what was put into it, version by version, to a token that
// may read it, and to no other; what is not there is told from what may not be
// read.
func TestStackVault(t *testing.T) {
	path := baoBinary()
	if path == "" {
		fmt.Println("not run: no OpenBao or Vault server in the stack's cache; name one with WALLPROOF_BAO")
		return
	}
	b := startBao(t, path)
	b.do("POST", "secret/data/app/one", map[string]any{"data": map[string]any{"key": "first-value-of-the-secret"}})
	b.do("POST", "secret/data/app/one", map[string]any{"data": map[string]any{"key": value, "number": 5}})
	b.do("POST", "secret/data/app/two words", map[string]any{"data": map[string]any{"key": value}})
	b.do("POST", "secret/data/app/gone", map[string]any{"data": map[string]any{"key": value}})
	b.do("DELETE", "secret/data/app/gone", nil)
	b.do("POST", "sys/mounts/old", map[string]any{"type": "kv", "options": map[string]any{"version": "1"}})
	b.do("POST", "old/app/one", map[string]any{"key": value})
	b.do("PUT", "sys/policies/acl/reader", map[string]any{"policy": `path "secret/data/app/*" { capabilities = ["read"] }
path "old/app/*" { capabilities = ["read"] }`})
	token := func(policies ...string) string {
		auth := b.do("POST", "auth/token/create", map[string]any{"policies": policies, "no_default_policy": true})["auth"].(map[string]any)
		return auth["client_token"].(string)
	}
	reader, nobody := token("reader"), token("nothing")
	revoked := token("reader")
	b.do("POST", "auth/token/revoke", map[string]any{"token": revoked})

	for _, tt := range []struct {
		name, token, want string
		src               policy.VaultSource
		missing           bool
	}{
		{name: "the newest version", token: reader, want: value, src: policy.VaultSource{Path: "app/one", Field: "key"}},
		{name: "an older version", token: reader, want: "first-value-of-the-secret", src: policy.VaultSource{Path: "app/one", Field: "key", Version: 1}},
		{name: "a path with a space", token: reader, want: value, src: policy.VaultSource{Path: "app/two words", Field: "key"}},
		{name: "engine 1", token: reader, want: value, src: policy.VaultSource{Mount: "old", Path: "app/one", Field: "key", Engine: 1}},
		{name: "no such path", token: reader, src: policy.VaultSource{Path: "app/none", Field: "key"}, missing: true},
		{name: "no such field", token: reader, src: policy.VaultSource{Path: "app/one", Field: "other"}, missing: true},
		{name: "no such version", token: reader, src: policy.VaultSource{Path: "app/one", Field: "key", Version: 9}, missing: true},
		{name: "not a text", token: reader, src: policy.VaultSource{Path: "app/one", Field: "number"}, missing: true},
		{name: "deleted", token: reader, src: policy.VaultSource{Path: "app/gone", Field: "key"}, missing: true},
		{name: "beside what it may read", token: reader, src: policy.VaultSource{Path: "other/one", Field: "key"}},
		{name: "may read nothing", token: nobody, src: policy.VaultSource{Path: "app/one", Field: "key"}},
		{name: "revoked", token: revoked, src: policy.VaultSource{Path: "app/one", Field: "key"}},
		{name: "no token of the server's", token: "s.rubbish", src: policy.VaultSource{Path: "app/one", Field: "key"}},
		{name: "an engine that is not the mount's", token: reader, src: policy.VaultSource{Path: "app/one", Field: "key", Engine: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := fakes(map[string]string{"VAULT_ADDR": b.addr, "VAULT_TOKEN": tt.token}, nil, nil)
			got, err := r.Resolve(t.Context(), policy.Source{Vault: &tt.src})
			if got != tt.want || (err == nil) != (tt.want != "") || tt.missing != errors.Is(err, ErrMissing) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("a whole policy stops at the first that cannot be had", func(t *testing.T) {
		r := fakes(map[string]string{"VAULT_ADDR": b.addr, "VAULT_TOKEN": reader}, nil, nil)
		p := &policy.Policy{Secrets: []policy.Secret{
			{Name: "ONE", From: policy.Source{Vault: &policy.VaultSource{Path: "app/one", Field: "key"}}},
			{Name: "NONE", From: policy.Source{Vault: &policy.VaultSource{Path: "app/none", Field: "key"}}},
		}}
		if v, err := r.Policy(t.Context(), p); err == nil || v != nil {
			t.Errorf("got %v, %v", v, err)
		}
	})
}
