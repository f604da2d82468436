// Package broker mints leases: short, repository-scoped tokens of a forge, in
// the way of a GitHub App (REST interface, "Create an installation access token
// for an app"), and understands enough of git's smart HTTP protocol to say what
// a push would do before it is let through.
//
// # Minting
//
// The App's RSA key signs a JWT (RS256, RFC 7519) that lives for a few minutes.
// With it POST {api}/app/installations/{id}/access_tokens asks for a token for
// one repository with the permissions "contents": "read" or "write" and
// "metadata": "read". DELETE {api}/installation/token, with the token itself,
// revokes it.
package broker

import (
	"bytes"
	"context"
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
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a forge is asked and what it may answer.
const (
	jwtLife     = 5 * time.Minute // GitHub takes at most ten
	jwtBackdate = time.Minute     // for a forge whose clock is behind
	maxAnswer   = 1 << 20
	minKeyBits  = 2048
)

// App is a GitHub App that is installed somewhere.
type App struct {
	ID           string // App id or client id: the JWT's issuer
	Installation int64
	API          string // base URL without trailing slash: "https://api.github.com"
	Key          *rsa.PrivateKey
	Client       *http.Client
	Now          func() time.Time
}

// Token is a minted token.
type Token struct {
	Value   string
	Expires time.Time
}

// ParseKey reads an RSA private key in PEM (PKCS #1 or PKCS #8).
func ParseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("broker key is not PEM")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		any, err8 := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err8 != nil {
			return nil, errors.New("broker key is neither PKCS #1 nor PKCS #8")
		}
		var ok bool
		if key, ok = any.(*rsa.PrivateKey); !ok {
			return nil, errors.New("broker key is not an RSA key")
		}
	}
	if key.N.BitLen() < minKeyBits {
		return nil, fmt.Errorf("broker key has %d bits; at least %d are needed", key.N.BitLen(), minKeyBits)
	}
	return key, nil
}

// jwt makes the App's own short-lived credential.
func (a *App) jwt() (string, error) {
	now := a.Now()
	claims, err := json.Marshal(map[string]any{
		"iat": now.Add(-jwtBackdate).Unix(),
		"exp": now.Add(jwtLife).Unix(),
		"iss": a.ID,
	})
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + enc.EncodeToString(claims)
	sum := sha256.Sum256([]byte(signed))
	sig, err := rsa.SignPKCS1v15(rand.Reader, a.Key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign the App's JWT: %w", err)
	}
	return signed + "." + enc.EncodeToString(sig), nil
}

// Mint asks for a token for one repository ("owner/name") of the installation,
// to read it or to write it too.
func (a *App) Mint(ctx context.Context, repository string, write bool) (Token, error) {
	_, name, ok := strings.Cut(repository, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return Token{}, fmt.Errorf("mint a lease: %q is not owner/name", repository)
	}
	access := "read"
	if write {
		access = "write"
	}
	body, err := json.Marshal(map[string]any{
		"repositories": []string{name},
		"permissions":  map[string]string{"contents": access, "metadata": "read"},
	})
	if err != nil {
		return Token{}, err
	}
	jwt, err := a.jwt()
	if err != nil {
		return Token{}, err
	}
	url := a.API + "/app/installations/" + strconv.FormatInt(a.Installation, 10) + "/access_tokens"
	status, answer, err := a.call(ctx, http.MethodPost, url, jwt, body)
	if err != nil {
		return Token{}, fmt.Errorf("mint a lease: %w", err)
	}
	if status != http.StatusCreated {
		return Token{}, fmt.Errorf("mint a lease: the forge answered %d", status)
	}
	return readToken(answer, repository, access)
}

// readToken reads the forge's answer and makes sure that the token is no wider
// than what was asked for.
func readToken(answer []byte, repository, access string) (Token, error) {
	var t struct {
		Token        string            `json:"token"`
		ExpiresAt    time.Time         `json:"expires_at"`
		Permissions  map[string]string `json:"permissions"`
		Repositories []struct {
			FullName string `json:"full_name"`
		} `json:"repositories"`
	}
	if err := json.Unmarshal(answer, &t); err != nil {
		return Token{}, fmt.Errorf("read the forge's answer: %w", err)
	}
	switch {
	case t.Token == "" || strings.ContainsAny(t.Token, " \r\n\x00") || t.ExpiresAt.IsZero():
		return Token{}, errors.New("the forge's answer has no token or no expiry")
	case len(t.Repositories) != 1 || !strings.EqualFold(t.Repositories[0].FullName, repository):
		return Token{Value: t.Token}, ErrTooWide
	}
	for permission, level := range t.Permissions {
		if permission == "contents" && (level == access || level == "read") || permission == "metadata" && level == "read" {
			continue
		}
		return Token{Value: t.Token}, ErrTooWide
	}
	return Token{t.Token, t.ExpiresAt}, nil
}

// ErrTooWide: the forge gave a token for more than what was asked. The Token
// that comes with it is only good for being revoked.
var ErrTooWide = errors.New("the forge's token reaches further than asked")

// Revoke ends a token. One that has ended already is no error.
func (a *App) Revoke(ctx context.Context, token string) error {
	status, _, err := a.call(ctx, http.MethodDelete, a.API+"/installation/token", token, nil)
	if err != nil {
		return fmt.Errorf("revoke a lease: %w", err)
	}
	if status != http.StatusNoContent && status != http.StatusUnauthorized {
		return fmt.Errorf("revoke a lease: the forge answered %d", status)
	}
	return nil
}

// Ahead asks the forge whether head is a descendant of base: the commits are on
// the forge already, so a push shows nothing of them.
func (a *App) Ahead(ctx context.Context, token, repository, base, head string) (bool, error) {
	url := a.API + "/repos/" + repository + "/compare/" + base + "..." + head
	status, answer, err := a.call(ctx, http.MethodGet, url, token, nil)
	if err != nil || status != http.StatusOK {
		return false, err
	}
	var c struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(answer, &c); err != nil {
		return false, fmt.Errorf("read the forge's comparison: %w", err)
	}
	return c.Status == "ahead" || c.Status == "identical", nil
}

func (a *App) call(ctx context.Context, method, url, bearer string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "wallproof")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, answer, err
}
