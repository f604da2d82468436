package secret

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wallproof/wallproof/policy"
)

// googleAPI answers as Secret Manager's REST interface and Google's token endpoint
// are documented to: names of projects come back as numbers, 64-bit numbers as text,
// errors with code, message and status; assertions are verified as RFC 7523 says.
type googleAPI struct {
	*httptest.Server
	key      *rsa.PrivateKey
	account  string
	mu       sync.Mutex
	versions map[string]googleVersion // by "projects/P/secrets/S/versions/V"
	status   []int                    // answered before anything else, one a request
	asked    []string
	why      string // the last assertion was refused
}

type googleVersion struct {
	state string // ENABLED, DISABLED, DESTROYED
	data  []byte
	crc   string // in place of the right one
}

func newGoogleAPI(t *testing.T) *googleAPI {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	g := &googleAPI{key: key, account: "runner@p.iam.gserviceaccount.com", versions: map[string]googleVersion{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", g.token)
	mux.HandleFunc("GET /v1/", g.access)
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	return g
}

// credentials is a service account's key file as Google writes it.
func (g *googleAPI) credentials(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(g.key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "k1", "client_email": g.account, "client_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"auth_uri":    "https://accounts.google.com/o/oauth2/auth", "token_uri": g.URL + "/token", "universe_domain": "googleapis.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const googleToken = "ya29.c.test-access-token"

func (g *googleAPI) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := r.ParseForm(); err != nil || r.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		g.why = "grant_type"
	} else {
		g.why = g.assertionFault(r.Form.Get("assertion"))
	}
	if g.why != "" {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, g.why)
		return
	}
	fmt.Fprintf(w, `{"access_token":%q,"expires_in":3599,"token_type":"Bearer"}`, googleToken)
}

func (g *googleAPI) assertionFault(jwt string) string {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return "not a JWT"
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(p); err != nil {
			return "not base64url without padding"
		}
	}
	var head struct{ Alg, Typ, Kid string }
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	if json.Unmarshal(raw[0], &head) != nil || json.Unmarshal(raw[1], &claims) != nil {
		return "not JSON"
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := time.Now().Unix()
	switch {
	case head.Alg != "RS256" || head.Typ != "JWT" || head.Kid != "k1":
		return "header"
	case rsa.VerifyPKCS1v15(&g.key.PublicKey, crypto.SHA256, sum[:], raw[2]) != nil:
		return "signature"
	case claims.Iss != g.account:
		return "issuer"
	case claims.Aud != g.URL+"/token":
		return "audience"
	case claims.Scope != "https://www.googleapis.com/auth/cloud-platform":
		return "scope"
	case claims.Iat > now+5 || claims.Exp <= now || claims.Exp > claims.Iat+3600:
		return "time"
	}
	return ""
}

func (g *googleAPI) access(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	fail := func(code int, status, message string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"status":%q}}`, code, message, status)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	path := r.URL.EscapedPath()
	g.asked = append(g.asked, path)
	if len(g.status) > 0 {
		code := g.status[0]
		g.status = g.status[1:]
		fail(code, map[int]string{429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 403: "PERMISSION_DENIED"}[code], "as the test wants it")
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+googleToken {
		fail(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
		return
	}
	name, ok := strings.CutSuffix(strings.TrimPrefix(path, "/v1/"), ":access")
	name, err := url.PathUnescape(name)
	if !ok || err != nil {
		fail(404, "NOT_FOUND", "Method not found.")
		return
	}
	v, there := g.versions[name]
	switch {
	case !there:
		fail(404, "NOT_FOUND", "Secret ["+name+"] not found or has no versions.")
		return
	case v.state != "ENABLED":
		fail(400, "FAILED_PRECONDITION", "Secret Version ["+name+"] is in "+v.state+" state.")
		return
	}
	crc := v.crc
	if crc == "" {
		crc = fmt.Sprint(crc32.Checksum(v.data, crc32.MakeTable(crc32.Castagnoli)))
	}
	answer, _ := json.MarshalIndent(map[string]any{
		"name":    strings.Replace(strings.Replace(name, "projects/p/", "projects/123456789012/", 1), "/latest", "/7", 1),
		"payload": map[string]string{"data": base64.StdEncoding.EncodeToString(v.data), "dataCrc32c": crc},
	}, "", "  ")
	_, _ = w.Write(answer)
}

func TestGCPAsDocumented(t *testing.T) {
	g := newGoogleAPI(t)
	binary := []byte("\x00\xff secret+/ with bytes of every kind\n\n")
	g.versions = map[string]googleVersion{
		"projects/p/secrets/s/versions/7":      {state: "ENABLED", data: []byte(value)},
		"projects/p/secrets/s/versions/latest": {state: "ENABLED", data: []byte(value)},
		"projects/p/secrets/b/versions/1":      {state: "ENABLED", data: binary},
		"projects/p/secrets/s/versions/6":      {state: "DISABLED"},
		"projects/p/secrets/s/versions/5":      {state: "DESTROYED"},
		"projects/p/secrets/x/versions/1":      {state: "ENABLED", data: []byte(value), crc: "4294967295"},
		"projects/p/secrets/x/versions/2":      {state: "ENABLED", data: []byte(value), crc: "-5"},
	}
	for _, tt := range []struct {
		name, src, want string
		status          []int
		attempts        int // 0: one
		missing         bool
	}{
		{name: "a version", src: "projects/p/secrets/s/versions/7", want: value},
		{name: "the newest", src: "projects/p/secrets/s/versions/latest", want: value},
		{name: "bytes", src: "projects/p/secrets/b/versions/1", want: string(binary)},
		{name: "after an outage", src: "projects/p/secrets/s/versions/7", want: value, status: []int{503, 429}, attempts: 3},
		{name: "no such secret", src: "projects/p/secrets/none/versions/1", missing: true},
		{name: "disabled", src: "projects/p/secrets/s/versions/6"},
		{name: "destroyed", src: "projects/p/secrets/s/versions/5"},
		{name: "not permitted", src: "projects/p/secrets/s/versions/7", status: []int{403}},
		{name: "another checksum", src: "projects/p/secrets/x/versions/1", attempts: defaultRetries},
		{name: "a checksum that is none", src: "projects/p/secrets/x/versions/2", attempts: defaultRetries},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.mu.Lock()
			g.status, g.asked = tt.status, nil
			g.mu.Unlock()
			r := fakes(map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "/sa"}, map[string]string{"/sa": g.credentials(t)}, map[string]string{"gcp": g.URL})
			got, err := r.Resolve(t.Context(), policy.Source{GCP: tt.src})
			if got != tt.want || (err == nil) != (tt.want != "") || tt.missing != errors.Is(err, ErrMissing) {
				t.Errorf("got %q, %v", got, err)
			}
			if want := max(1, tt.attempts); len(g.asked) != want {
				t.Errorf("%d attempts, want %d: %v", len(g.asked), want, g.asked)
			}
			if g.why != "" {
				t.Errorf("the assertion: %s", g.why)
			}
			if err != nil && strings.Contains(err.Error(), value) {
				t.Errorf("the error holds the value: %v", err)
			}
		})
	}
}
