package inside

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func plan(t *testing.T, p any) io.Reader {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	uid, gid := os.Getuid(), os.Getgid()
	elsewhere := filepath.Join(dir, "elsewhere")
	link := filepath.Join(dir, "link")
	if err := os.WriteFile(elsewhere, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	p := Plan{Dirs: []Dir{{filepath.Join(dir, "a/b"), uid, gid}}, Files: []File{{filepath.Join(dir, "c/d.json"), uid, gid, []byte("{}")}, {link, uid, gid, []byte("login")}}}
	if err := Prepare(plan(t, p)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "c/d.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "kept" {
		t.Errorf("a link was followed: %q, %v", b, err)
	}
	if b, err := os.ReadFile(link); err != nil || string(b) != "login" {
		t.Errorf("%q, %v", b, err)
	}
	for name, text := range map[string]string{"unknown member": `{"dirs":[],"other":1}`, "no JSON": "x", "empty": ""} {
		if err := Prepare(strings.NewReader(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := Prepare(plan(t, Plan{Dirs: make([]Dir, maxItems+1)})); err == nil {
		t.Error("any number of items is accepted")
	}
}

func TestAwait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := Await(t.Context(), plan(t, map[string]any{"targets": []string{addr}, "timeoutMs": 20000})); err != nil {
		t.Error(err)
	}
	l.Close()
	err = Await(t.Context(), plan(t, map[string]any{"targets": []string{addr}, "timeoutMs": 1}))
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("a service that is not there: %v", err)
	}
}

// Reach tells a site from a block page by its status and the proxy's word, a
// refused tunnel from a refused connection, and both from a name that is none.
func TestReach(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	defer site.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(reasonOf, "default-deny")
		w.WriteHeader(403)
	}))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, tt := range []struct {
		url     string
		proxied bool
		want    string
	}{
		{site.URL, false, "HTTP 204"},
		{secure.URL, false, "tls"},
		{"http://blocked.example/", true, "HTTP 403 default-deny"},
		{"https://blocked.example/", true, "CONNECT 403 default-deny"},
		{"http://" + l.Addr().String(), false, "refused"},
		{"https://name.invalid/", false, "no-such-name"},
	} {
		if got := reachOne(t.Context(), tt.url, tt.proxied); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.url, got, tt.want)
		}
	}
}

func TestKeyLike(t *testing.T) {
	got := KeyLike([]string{"PATH=/bin", "OPENAI_API_KEY=x", "GH_PAT=x", "MY_PATH=x", "db_password=x", "TOKEN=x", "HOME=/"})
	if want := []string{"GH_PAT", "OPENAI_API_KEY", "TOKEN", "db_password"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
