package attest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wallproof/wallproof/attest"
)

const token = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.c2ln"

func env(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func TestAmbientToken(t *testing.T) {
	var busy atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/github", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Query().Get("audience") != "sigstore" || r.URL.Query().Get("keep") != "1" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		if busy.Add(1) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Write([]byte(`{"value":"` + token + `"}`))
	})
	mux.HandleFunc("/computeMetadata/v1/instance/service-accounts/default/identity", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || r.URL.Query().Get("audience") != "sigstore" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		w.Write([]byte(token + "\n"))
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/github", http.StatusFound) })
	mux.HandleFunc("/refused", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(strings.Repeat("a", 1<<20))) })
	mux.HandleFunc("/junk", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>")) })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{}`)) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	github := func(path, bearer string) func(string) (string, bool) {
		return env("ACTIONS_ID_TOKEN_REQUEST_URL", srv.URL+path, "ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer)
	}
	for _, c := range []struct {
		name string
		env  func(string) (string, bool)
		want error
	}{
		{"nothing", env(), attest.ErrNoToken},
		{"given", env("SIGSTORE_ID_TOKEN", token+"\n"), nil},
		{"given, not a token", env("SIGSTORE_ID_TOKEN", "hello"), attest.ErrToken},
		{"GitHub, busy at first", github("/github?keep=1", "secret"), nil},
		{"GitHub, wrong bearer", github("/github?keep=1", "guess"), attest.ErrToken},
		{"GitHub, redirected", github("/redirect", "secret"), attest.ErrToken},
		{"GitHub, refused", github("/refused", "secret"), attest.ErrToken},
		{"GitHub, large answer", github("/large", "secret"), attest.ErrToken},
		{"GitHub, junk", github("/junk", "secret"), attest.ErrToken},
		{"GitHub, empty", github("/empty", "secret"), attest.ErrToken},
		{"GitHub over plain http elsewhere", env("ACTIONS_ID_TOKEN_REQUEST_URL", "http://192.0.2.1/x"), attest.ErrToken},
		{"Google", env("GCE_METADATA_HOST", strings.TrimPrefix(srv.URL, "http://")), nil},
	} {
		got, err := attest.AmbientToken(context.Background(), c.env, srv.Client())
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || (err == nil && got != token) {
			t.Errorf("%s: %q, %v, want %v", c.name, got, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := attest.AmbientToken(ctx, github("/github?keep=1", "secret"), srv.Client()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
