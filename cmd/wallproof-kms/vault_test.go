package main

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
)

// concatenated turns an ECDSA P-256 signature in ASN.1 into r ‖ s.
func concatenated(t *testing.T, der []byte) []byte {
	t.Helper()
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		t.Error(err)
		return nil
	}
	out := make([]byte, 64)
	sig.R.FillBytes(out[:32])
	sig.S.FillBytes(out[32:])
	return out
}

// startVault serves the transit engine's interface, as HashiCorp Vault and
// OpenBao have it.
func startVault(t *testing.T, ring *keyring) {
	t.Helper()
	const token = "vault-token"
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			ring.mu.Lock()
			defer ring.mu.Unlock()
			switch {
			case r.Header.Get("X-Vault-Token") != token:
				http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
			case r.PathValue("name") != "wallproof":
				http.Error(w, `{"errors":[]}`, http.StatusNotFound)
			default:
				answer(w, r)
			}
		})
	}
	handle("GET /v1/transit/keys/{name}", func(w http.ResponseWriter, _ *http.Request) {
		keys := map[string]any{}
		for n, k := range ring.versions {
			der, err := x509.MarshalPKIXPublicKey(k.Public())
			if err != nil {
				t.Error(err)
			}
			keys[fmt.Sprint(n+1)] = map[string]any{"name": "P-256", "public_key": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
		}
		answerJSON(w, map[string]any{"data": map[string]any{"name": "wallproof", "type": "ecdsa-p256", "keys": keys, "latest_version": len(ring.versions)}})
	})
	handle("PUT /v1/transit/sign/{name}/{hash}", func(w http.ResponseWriter, r *http.Request) {
		if ring.refuses(w, `{"errors":["not today"]}`) {
			return
		}
		var req struct {
			Input     string `json:"input"`
			Prehashed bool   `json:"prehashed"`
		}
		err := json.NewDecoder(r.Body).Decode(&req)
		digest, bad := base64.StdEncoding.DecodeString(req.Input)
		if err != nil || bad != nil || !req.Prehashed || r.PathValue("hash") != "sha2-256" {
			http.Error(w, `{"errors":["invalid request"]}`, http.StatusBadRequest)
			return
		}
		n := len(ring.versions)
		sig, err := ring.versions[n-1].Sign(rand.Reader, digest, crypto.SHA256)
		if err != nil {
			t.Error(err)
		}
		answerJSON(w, map[string]any{"data": map[string]any{"key_version": n, "signature": fmt.Sprintf("vault:v%d:%s", n, base64.StdEncoding.EncodeToString(sig))}})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Setenv("VAULT_ADDR", srv.URL)
	t.Setenv("VAULT_TOKEN", token)
}

func TestVault(t *testing.T) {
	ring := newKeyring(t)
	startVault(t, ring)
	const ref = "hashivault://wallproof"
	testKeyService(t, ring, ref, ref+"?version=1", ref+"?version=2")
	t.Setenv("VAULT_TOKEN", "another")
	if _, err := openNamed(t, ref); err == nil {
		t.Error("a token that the server does not know is accepted")
	}
}
