package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// azureVersion is how a vault calls the nth version of a key.
func azureVersion(n int) string { return fmt.Sprintf("%032x", n) }

// startAzure serves a key vault over the REST interface of Azure's, TLS and the
// challenge for a token included, and a managed identity that gives the token.
func startAzure(t *testing.T, ring *keyring) (host string) {
	t.Helper()
	const token = "azure-token"
	mux := http.NewServeMux()
	srv := httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	host = strings.TrimPrefix(srv.URL, "https://")
	// The client accepts a challenge only for a domain of which the vault's is part.
	challenge := `Bearer authorization="https://login.example/tenant", resource="https://` + strings.TrimPrefix(host, "127.") + `"`
	number := func(version string) int {
		for n := range ring.versions {
			if azureVersion(n+1) == version {
				return n
			}
		}
		if version == "" {
			return len(ring.versions) - 1
		}
		return -1
	}
	handle := func(w http.ResponseWriter, r *http.Request, answer func(n int)) {
		ring.mu.Lock()
		defer ring.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		n := number(r.PathValue("version"))
		if r.PathValue("name") != "wallproof" || n < 0 {
			http.Error(w, `{"error":{"code":"KeyNotFound","message":"no such key"}}`, http.StatusNotFound)
			return
		}
		answer(n)
	}
	get := func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(n int) {
			raw, err := ring.versions[n].PublicKey.Bytes() // 4 ‖ X ‖ Y
			if err != nil {
				t.Error(err)
			}
			answerJSON(w, map[string]any{"attributes": map[string]any{"enabled": true}, "key": map[string]any{
				"kid": "https://" + host + "/keys/wallproof/" + azureVersion(n+1), "kty": "EC-HSM", "crv": "P-256", "key_ops": []string{"sign", "verify"},
				"x": base64.RawURLEncoding.EncodeToString(raw[1:33]), "y": base64.RawURLEncoding.EncodeToString(raw[33:]),
			}})
		})
	}
	mux.HandleFunc("GET /keys/{name}/{version}", get)
	mux.HandleFunc("GET /keys/{name}/{$}", get)
	mux.HandleFunc("GET /keys/{name}", get)
	mux.HandleFunc("POST /keys/{name}/{version}/sign", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(n int) {
			if ring.refuses(w, `{"error":{"code":"Forbidden","message":"not today"}}`) {
				return
			}
			var req struct{ Alg, Value string }
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Alg != "ES256" {
				http.Error(w, "algorithm", http.StatusBadRequest)
				return
			}
			digest, err := base64.RawURLEncoding.DecodeString(req.Value)
			if err != nil {
				http.Error(w, "value", http.StatusBadRequest)
				return
			}
			answerJSON(w, map[string]any{"kid": "https://" + host + "/keys/wallproof/" + azureVersion(n+1),
				"value": base64.RawURLEncoding.EncodeToString(rawSignature(t, ring, n, digest))})
		})
	})
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-IDENTITY-HEADER") != "header" || r.URL.Query().Get("resource") == "" {
			http.Error(w, "who are you", http.StatusForbidden)
			return
		}
		answerJSON(w, map[string]any{"access_token": token, "token_type": "Bearer", "resource": r.URL.Query().Get("resource"),
			"expires_on": fmt.Sprint(time.Now().Add(time.Hour).Unix())})
	}))
	t.Cleanup(identity.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"SSL_CERT_FILE": ca, "IDENTITY_ENDPOINT": identity.URL, "IDENTITY_HEADER": "header",
		"AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential"} {
		t.Setenv(name, value)
	}
	return host
}

// rawSignature is r ‖ s, as a vault gives it.
func rawSignature(t *testing.T, ring *keyring, n int, digest []byte) []byte {
	t.Helper()
	der, err := ring.versions[n].Sign(rand.Reader, digest, nil)
	if err != nil {
		t.Error(err)
	}
	return concatenated(t, der)
}

func TestAzure(t *testing.T) {
	ring := newKeyring(t)
	host := startAzure(t, ring)
	ref := "azurekms://" + host + "/wallproof"
	testKeyService(t, ring, ref, ref+"/"+azureVersion(1), ref+"/"+azureVersion(2))
}
