package forge

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/canary"
)

// Bounds on a GitHub App's JSON Web Token, as GitHub has them.
const (
	maxJWTLife = 10 * time.Minute
	jwtSkew    = time.Minute
	maxJWT     = 8 << 10
)

// TokenPrefix is what installation tokens begin with.
const TokenPrefix = "ghs_"

// app is a GitHub App with its key.
type app struct {
	App
	key *rsa.PublicKey
}

func newApp(a App) (*app, error) {
	block, _ := pem.Decode([]byte(a.PublicKeyPEM))
	if block == nil {
		return nil, errors.New("public key is not PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		if key, err = x509.ParsePKCS1PublicKey(block.Bytes); err != nil {
			return nil, fmt.Errorf("public key: %w", err)
		}
	}
	pub, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("public key is not RSA")
	}
	a.Repos = slices.Clone(a.Repos)
	for i, r := range a.Repos {
		a.Repos[i] = strings.ToLower(r)
	}
	return &app{App: a, key: pub}, nil
}

// token is an installation token, or a full one.
type token struct {
	id          string
	full        bool
	app         *app
	repos       []string // covered, in lower case; nil when full
	permissions map[string]string
	expires     time.Time // when the forge stops taking it
	stated      time.Time // when it is over by what the forge said
	lease       Lease
}

// LeaseID names a token without giving it away.
func LeaseID(tok string) string {
	sum := sha256.Sum256([]byte(tok))
	return hex.EncodeToString(sum[:8])
}

// bearer returns the credential of a request: a token in Authorization as
// Bearer, token or the password of Basic.
func bearer(h http.Header) string {
	scheme, value, _ := strings.Cut(h.Get("Authorization"), " ")
	value = strings.TrimSpace(value)
	switch strings.ToLower(scheme) {
	case "bearer", "token":
		return value
	case "basic":
		raw, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return ""
		}
		user, password, _ := strings.Cut(string(raw), ":")
		if password == "" || password == "x-oauth-basic" { // some clients send the token as the user name
			return user
		}
		return password
	}
	return ""
}

// authenticate returns the token of a request, nil when it has none that is
// valid now. The lock is held.
func (f *Forge) authenticate(h http.Header) *token {
	tok := bearer(h)
	if tok == "" {
		return nil
	}
	if slices.Contains(f.cfg.FullTokens, tok) {
		return &token{id: LeaseFull, full: true}
	}
	t := f.tokens[tok]
	if t == nil || !f.hooks.Now().Before(t.expires) {
		return nil
	}
	return t
}

// presented is a credential in an attempt's hands.
type presented struct{ nonce, credential string }

// maxPresented bounds how many are remembered.
const maxPresented = 4096

// late reports whether an attempt comes back with the very credential that it had
// before, after the time of that is over. A full credential has no time of its own:
// it gets that of a lease from its first use.
func (f *Forge) late(req services.Request) bool {
	cred := bearer(req.Header)
	if cred == "" || f.cfg.ReadSeconds <= 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.hooks.Now()
	found := false
	for _, n := range f.hooks.Find([]byte(req.Path + "?" + req.Query.Encode())) {
		key := presented{n, LeaseID(cred)}
		over, again := f.seen[key]
		if t := f.tokens[cred]; !again && len(f.seen) < maxPresented {
			over = now.Add(time.Duration(f.cfg.ReadSeconds) * time.Second)
			if t != nil {
				over = t.stated
			}
			f.seen[key] = over
		}
		found = found || again && now.After(over)
	}
	return found
}

// covers reports whether the token may do something in a repository. perm is
// "read" or "write" of its contents.
func (t *token) covers(repo, perm string) bool {
	switch {
	case t == nil:
		return false
	case t.full:
		return true
	case !slices.Contains(t.repos, repo):
		return false
	}
	have := t.permissions["contents"]
	return have == "write" || have == "admin" || have == perm
}

// errJWT is GitHub's answer to anything but a token signed by an app's key.
var errJWT = errors.New("a JSON web token could not be decoded")

// verifyJWT returns the app whose key signed a token that is valid now. GitHub's
// rules: RS256; iss is the app's id; iat not in the future; exp in the future and
// at most ten minutes from now; a minute of skew.
func (f *Forge) verifyJWT(tok string) (*app, error) {
	if len(tok) > maxJWT {
		return nil, errors.New("token is too long")
	}
	parts := strings.Split(tok, ".")
	if len(parts) != 3 {
		return nil, errJWT
	}
	var head struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Iss json.RawMessage `json:"iss"`
		Iat *float64        `json:"iat"`
		Exp *float64        `json:"exp"`
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err := errors.Join(err, segment(parts[0], &head), segment(parts[1], &claims)); err != nil {
		return nil, errJWT
	}
	a := f.apps[strings.Trim(string(claims.Iss), `"`)]
	switch now := f.hooks.Now(); {
	case head.Alg != "RS256":
		return nil, errors.New("the algorithm must be RS256")
	case a == nil:
		return nil, errors.New("integration not found")
	case claims.Iat == nil || unix(*claims.Iat).After(now.Add(jwtSkew)):
		return nil, errors.New("'Issued at' claim ('iat') must be an Integer representing a time in the past")
	case claims.Exp == nil || !unix(*claims.Exp).After(now.Add(-jwtSkew)):
		return nil, errors.New("'Expiration time' claim ('exp') must be a numeric value representing the future time")
	case unix(*claims.Exp).After(now.Add(maxJWTLife + jwtSkew)):
		return nil, errors.New("'Expiration time' claim ('exp') is too far in the future")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(a.key, crypto.SHA256, sum[:], sig) != nil {
		return nil, errJWT
	}
	return a, nil
}

func segment(s string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// unix bounds what a float can hold before it becomes a time.
func unix(seconds float64) time.Time {
	const far = 1 << 40
	return time.Unix(int64(max(-far, min(far, seconds))), 0)
}

// tokenRequest is the body of POST /app/installations/ID/access_tokens.
type tokenRequest struct {
	Repositories  []string          `json:"repositories"`
	RepositoryIDs []int64           `json:"repository_ids"`
	Permissions   map[string]string `json:"permissions"`
}

// issue makes an installation token. The lock is held.
func (f *Forge) issue(a *app, req services.Request) services.Response {
	var ask tokenRequest
	if len(req.Body) > 0 {
		if err := json.Unmarshal(req.Body, &ask); err != nil {
			return refuse(req, http.StatusBadRequest, "Problems parsing JSON")
		}
	}
	repos, err := scope(a, ask)
	if err != nil {
		return refuse(req, http.StatusUnprocessableEntity, err.Error())
	}
	if len(ask.Permissions) == 0 {
		ask.Permissions = map[string]string{"contents": "write", "metadata": "read"}
	}
	f.expire()
	if len(f.tokens) >= maxTokens {
		return refuse(req, http.StatusTooManyRequests, "API rate limit exceeded")
	}
	c, err := canary.New(rand.Reader)
	if err != nil {
		return refuse(req, http.StatusInternalServerError, "no randomness")
	}
	tok := TokenPrefix + c
	life := time.Duration(f.cfg.TokenSeconds) * time.Second
	if life <= 0 {
		life = defaultTokenLife
	}
	t := &token{id: LeaseID(tok), app: a, repos: repos, permissions: ask.Permissions, expires: f.hooks.Now().Add(life)}
	t.stated = t.expires
	if s := f.cfg.ReadSeconds; s > 0 && ask.Permissions["contents"] == "read" {
		t.stated = f.hooks.Now().Add(time.Duration(s) * time.Second)
	}
	t.lease = Lease{
		Time: f.stamp(), ID: t.id, Digest: canary.Digest(c), App: a.ID, Installation: a.Installation,
		Repos: repos, Permissions: ask.Permissions, Expires: t.stated.UTC().Format(TimeFormat),
	}
	f.tokens[tok] = t
	f.hooks.Lease(t.lease)
	list := []any{}
	for _, r := range repos {
		list = append(list, repository(r, req.Host))
	}
	return jsonValue(http.StatusCreated, map[string]any{
		"token": tok, "expires_at": t.stated.UTC().Format(time.RFC3339), "permissions": t.permissions,
		"repository_selection": "selected", "repositories": list,
	})
}

// errNotCovered is GitHub's answer to a repository outside the installation.
var errNotCovered = errors.New("there is at least one repository that does not exist or is not accessible to the parent installation")

// scope is the repositories that a new token covers: those asked for, which must
// be the installation's, or all of them.
func scope(a *app, ask tokenRequest) ([]string, error) {
	if len(ask.RepositoryIDs) > 0 {
		for _, id := range ask.RepositoryIDs {
			found := false
			for _, r := range a.Repos {
				if repositoryID(r) == id {
					ask.Repositories = append(ask.Repositories, r[strings.Index(r, "/")+1:])
					found = true
				}
			}
			if !found {
				return nil, errNotCovered
			}
		}
	}
	if len(ask.Repositories) == 0 {
		return slices.Clone(a.Repos), nil
	}
	var out []string
	for _, name := range ask.Repositories {
		i := slices.IndexFunc(a.Repos, func(r string) bool { return r[strings.Index(r, "/")+1:] == strings.ToLower(name) })
		if i < 0 {
			return nil, errNotCovered
		}
		out = append(out, a.Repos[i])
	}
	return out, nil
}

// revoke ends the token of a request.
func (f *Forge) revoke(h http.Header) bool {
	t := f.tokens[bearer(h)]
	if t == nil {
		return false
	}
	delete(f.tokens, bearer(h))
	l := t.lease
	l.Time, l.Revoked = f.stamp(), true
	f.hooks.Lease(l)
	return true
}

// expire forgets tokens that have run out.
func (f *Forge) expire() {
	now := f.hooks.Now()
	maps.DeleteFunc(f.tokens, func(_ string, t *token) bool { return !now.Before(t.expires) })
}
