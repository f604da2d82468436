package secret

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/policy"
)

const value = "the-value-of-a-secret"

// fakes is an operator's environment.
func fakes(env map[string]string, files map[string]string, endpoints map[string]string) *Resolver {
	return &Resolver{
		Env: func(n string) (string, bool) { v, ok := env[n]; return v, ok },
		File: func(p string) ([]byte, error) {
			if s, ok := files[p]; ok {
				return []byte(s), nil
			}
			return nil, fs.ErrNotExist
		},
		Pause:     func(context.Context, time.Duration) error { return nil },
		Endpoints: endpoints,
	}
}

func TestEnvironmentAndFile(t *testing.T) {
	r := fakes(map[string]string{"A": value, "EMPTY": ""}, map[string]string{"/a": value + "\n", "/b": value + "\n\n"}, nil)
	for _, tc := range []struct {
		src  policy.Source
		want string
		err  string
	}{
		{policy.Source{Env: "A"}, value, ""},
		{policy.Source{Env: "B"}, "", "B is not set"},
		{policy.Source{Env: "EMPTY"}, "", "empty"},
		{policy.Source{File: "/a"}, value, ""},
		{policy.Source{File: "/b"}, value + "\n", ""},
		{policy.Source{File: "/c"}, "", "not exist"},
		{policy.Source{}, "", "canonical form"},
	} {
		got, err := r.Resolve(t.Context(), tc.src)
		if tc.err == "" && (err != nil || got != tc.want) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%+v: %q, %v", tc.src, got, err)
		}
	}
}

func TestVault(t *testing.T) {
	failures := 2
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Vault-Token") != "t0ken":
			w.WriteHeader(403)
		case r.URL.Path == "/v1/secret/data/app/one" && r.URL.Query().Get("version") == "3" && r.Header.Get("X-Vault-Namespace") == "team":
			if failures > 0 {
				failures--
				w.WriteHeader(503)
				return
			}
			fmt.Fprintf(w, `{"data":{"data":{"key":%q},"metadata":{"version":3}}}`, value)
		case r.URL.Path == "/v1/old/one":
			fmt.Fprintf(w, `{"data":{"key":%q,"number":5}}`, value)
		default:
			w.WriteHeader(404)
		}
	}))
	defer srv.Close()
	r := fakes(map[string]string{"VAULT_ADDR": srv.URL + "/", "VAULT_TOKEN": "t0ken"}, nil, nil)
	two := policy.Source{Vault: &policy.VaultSource{Path: "app/one", Field: "key", Version: 3, Namespace: "team"}}
	if got, err := r.Resolve(t.Context(), two); err != nil || got != value {
		t.Errorf("engine 2 after two failures: %q %v", got, err)
	}
	one := policy.Source{Vault: &policy.VaultSource{Mount: "old", Path: "one", Field: "key", Engine: 1}}
	if got, err := r.Resolve(t.Context(), one); err != nil || got != value {
		t.Errorf("engine 1: %q %v", got, err)
	}
	for name, src := range map[string]policy.VaultSource{
		"no such path":  {Path: "none", Field: "key"},
		"no such field": {Mount: "old", Path: "one", Field: "other", Engine: 1},
		"not a text":    {Mount: "old", Path: "one", Field: "number", Engine: 1},
	} {
		if _, err := r.Resolve(t.Context(), policy.Source{Vault: &src}); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	denied := fakes(map[string]string{"VAULT_ADDR": srv.URL, "VAULT_TOKEN": "wrong"}, nil, nil)
	if _, err := denied.Resolve(t.Context(), two); err == nil || !strings.Contains(err.Error(), "attempt 1: ") {
		t.Errorf("a refusal is not tried again: %v", err)
	}
}

func TestUnreadableVaultStopsAfterBoundedAttempts(t *testing.T) {
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n++; w.WriteHeader(500) }))
	defer srv.Close()
	r := fakes(map[string]string{"VAULT_ADDR": srv.URL, "VAULT_TOKEN": "t"}, nil, nil)
	p := &policy.Policy{Secrets: []policy.Secret{{Name: "A", From: policy.Source{Vault: &policy.VaultSource{Path: "a", Field: "b"}}}}}
	if v, err := r.Policy(t.Context(), p); err == nil || v != nil || n != defaultRetries {
		t.Errorf("%v %v after %d attempts", v, err, n)
	}
}

func TestGCP(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.Checksum([]byte(value), crc32.MakeTable(crc32.Castagnoli))
	crc := fmt.Sprint(sum)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/token":
			_ = r.ParseForm()
			if len(strings.Split(r.Form.Get("assertion"), ".")) != 3 && r.Form.Get("refresh_token") != "ref" {
				w.WriteHeader(400)
				return
			}
			fmt.Fprint(w, `{"access_token":"acc"}`)
		case "/computeMetadata/v1/instance/service-accounts/default/token":
			if r.Header.Get("Metadata-Flavor") != "Google" {
				w.WriteHeader(403)
				return
			}
			fmt.Fprint(w, `{"access_token":"acc"}`)
		case "/v1/projects/p/secrets/s/versions/1:access":
			if r.Header.Get("Authorization") != "Bearer acc" {
				w.WriteHeader(401)
				return
			}
			fmt.Fprintf(w, `{"payload":{"data":%q,"dataCrc32c":%q}}`, base64.StdEncoding.EncodeToString([]byte(value)), crc)
		default:
			w.WriteHeader(404)
		}
	}))
	defer srv.Close()
	account, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b", "token_uri": srv.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	user, _ := json.Marshal(map[string]string{"type": "authorized_user", "refresh_token": "ref", "token_uri": srv.URL + "/token"})
	files := map[string]string{"/sa": string(account), "/user": string(user), "/other": `{"type":"external_account"}`}
	ends := map[string]string{"gcp": srv.URL, "gcp-metadata": srv.URL}
	src := policy.Source{GCP: "projects/p/secrets/s/versions/1"}
	for _, path := range []string{"/sa", "/user", ""} {
		env := map[string]string{}
		if path != "" {
			env["GOOGLE_APPLICATION_CREDENTIALS"] = path
		}
		if got, err := fakes(env, files, ends).Resolve(t.Context(), src); err != nil || got != value {
			t.Errorf("%q: %q %v", path, got, err)
		}
	}
	if _, err := fakes(map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "/other"}, files, ends).Resolve(t.Context(), src); err == nil {
		t.Error("another type of credentials was accepted")
	}
	crc = "1"
	if _, err := fakes(nil, files, ends).Resolve(t.Context(), src); err == nil {
		t.Error("a payload with a wrong checksum was accepted")
	}
}

func TestAWS(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ SecretId string }
		_ = json.NewDecoder(r.Body).Decode(&ask)
		if ask.SecretId != "id" || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" ||
			!strings.Contains(r.Header.Get("Authorization"), "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target") {
			w.WriteHeader(400)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": `{"key":"` + value + `"}`})
	}))
	defer srv.Close()
	r := fakes(map[string]string{"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "k", "AWS_SESSION_TOKEN": "t"}, nil, map[string]string{"aws": srv.URL})
	if got, err := r.Resolve(t.Context(), policy.Source{AWS: &policy.AWSSource{ID: "id", Region: "eu-central-1", Field: "key"}}); err != nil || got != value {
		t.Errorf("%q %v", got, err)
	}
}

// The vector "post-vanilla" of AWS's Signature Version 4 test suite.
func TestAWSSignature(t *testing.T) {
	r := &Resolver{Now: func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }}
	req, err := newRequest("POST", "https://example.amazonaws.com/", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.signAWS(req, nil, "us-east-1", "service", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
	if got := req.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAzure(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tenant/oauth2/v2.0/token":
			_ = r.ParseForm()
			if r.Form.Get("client_secret") != "cs" {
				w.WriteHeader(401)
				return
			}
			fmt.Fprint(w, `{"access_token":"acc"}`)
		case "/secrets/name/v1":
			if r.Header.Get("Authorization") != "Bearer acc" || r.URL.Query().Get("api-version") == "" {
				w.WriteHeader(401)
				return
			}
			fmt.Fprintf(w, `{"value":%q}`, value)
		default:
			w.WriteHeader(404)
		}
	}))
	defer srv.Close()
	env := map[string]string{"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "ci", "AZURE_CLIENT_SECRET": "cs"}
	r := fakes(env, nil, map[string]string{"azure": srv.URL, "azure-login": srv.URL})
	if got, err := r.Resolve(t.Context(), policy.Source{Azure: &policy.AzureSource{Vault: "v", Secret: "name", Version: "v1"}}); err != nil || got != value {
		t.Errorf("%q %v", got, err)
	}
}

func TestErrorsNeverHoldValues(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprintf(w, "echo %s %s", value, r.Header.Get("X-Vault-Token"))
	}))
	defer srv.Close()
	r := fakes(map[string]string{"VAULT_ADDR": srv.URL, "VAULT_TOKEN": "t0ken-of-the-operator"}, nil, nil)
	_, err := r.Resolve(t.Context(), policy.Source{Vault: &policy.VaultSource{Path: "a", Field: "b"}})
	if err == nil || strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "t0ken") {
		t.Errorf("%v", err)
	}
}
