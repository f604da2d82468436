package attest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Audience is what Sigstore's certificate authorities expect in a token.
const Audience = "sigstore"

// Errors of identity tokens.
var (
	ErrNoToken = errors.New("no identity token: give one with --identity-token, set SIGSTORE_ID_TOKEN, " +
		"or run where GitHub Actions (permission id-token: write), GitLab CI (id_tokens: SIGSTORE_ID_TOKEN) or Google Cloud give one")
	ErrToken = errors.New("the identity token was refused")
)

// maxTokenBytes bounds a token and the answer that carries one.
const maxTokenBytes = 64 << 10

// AmbientToken finds the identity token of the CI system that this process runs
// in:
//
//	SIGSTORE_ID_TOKEN                      given by hand or by GitLab's id_tokens
//	ACTIONS_ID_TOKEN_REQUEST_URL, _TOKEN   GitHub Actions
//	GCE_METADATA_HOST                      Google Cloud's metadata service
//
// lookup is os.LookupEnv; client carries out the requests. It never asks a
// metadata service that the environment does not name.
func AmbientToken(ctx context.Context, lookup func(string) (string, bool), client *http.Client) (string, error) {
	if token, ok := lookup("SIGSTORE_ID_TOKEN"); ok && token != "" {
		return CheckToken(token)
	}
	if address, ok := lookup("ACTIONS_ID_TOKEN_REQUEST_URL"); ok && address != "" {
		bearer, _ := lookup("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
		return githubToken(ctx, client, address, bearer)
	}
	if host, ok := lookup("GCE_METADATA_HOST"); ok && host != "" {
		return googleToken(ctx, client, host)
	}
	return "", ErrNoToken
}

// CheckToken trims a token and refuses what cannot be one. Whether it is genuine
// the certificate authority decides.
func CheckToken(token string) (string, error) {
	token = strings.TrimSpace(token)
	if len(token) > maxTokenBytes || strings.Count(token, ".") != 2 || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%w: it does not have the form of a JSON web token", ErrToken)
	}
	return token, nil
}

func githubToken(ctx context.Context, client *http.Client, address, bearer string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || !secret(u) {
		return "", fmt.Errorf("%w: ACTIONS_ID_TOKEN_REQUEST_URL is not an https address", ErrToken)
	}
	q := u.Query()
	q.Set("audience", Audience)
	u.RawQuery = q.Encode()
	body, err := get(ctx, client, u.String(), "Authorization", "Bearer "+bearer)
	if err != nil {
		return "", err
	}
	var answer struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("%w: GitHub's answer: %w", ErrToken, err)
	}
	return CheckToken(answer.Value)
}

// secret reports whether a bearer token may be sent to an address: over TLS, or
// to this machine.
func secret(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || (u.Scheme == "http" && (u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())))
}

func googleToken(ctx context.Context, client *http.Client, host string) (string, error) {
	u := url.URL{Scheme: "http", Host: host, Path: "/computeMetadata/v1/instance/service-accounts/default/identity",
		RawQuery: url.Values{"audience": {Audience}, "format": {"full"}}.Encode()}
	body, err := get(ctx, client, u.String(), "Metadata-Flavor", "Google")
	if err != nil {
		return "", err
	}
	return CheckToken(string(body))
}

// get fetches a token with one header and no redirect, which could carry the
// header elsewhere.
func get(ctx context.Context, client *http.Client, address, name, value string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for an identity token: %w", err)
	}
	req.Header.Set(name, value)
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.Timeout == 0 {
		c.Timeout = serviceTimeout
	}
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = retrying{next}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for an identity token: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answered %s", ErrToken, req.URL.Host, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenBytes+1))
	if err != nil {
		return nil, fmt.Errorf("ask for an identity token: %w", err)
	}
	if len(body) > maxTokenBytes {
		return nil, fmt.Errorf("%w: an answer of more than %d bytes", ErrToken, maxTokenBytes)
	}
	return body, nil
}

// claims reads, without checking anything, the issuer of a token and the names
// under which a certificate authority may put its holder into a certificate: a
// mail address, a CI workflow, a subject.
func claims(token string) (issuer string, names []string) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", nil
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", nil
	}
	var c struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Email    string `json:"email"`
		Workflow string `json:"job_workflow_ref"`
		GitLab   string `json:"ci_config_ref_uri"`
	}
	if json.Unmarshal(data, &c) != nil {
		return "", nil
	}
	for _, name := range []string{c.Email, c.Subject} {
		if name != "" {
			names = append(names, name)
		}
	}
	if c.Workflow != "" {
		names = append(names, "https://github.com/"+c.Workflow)
	}
	if c.GitLab != "" {
		names = append(names, "https://"+c.GitLab)
	}
	return c.Issuer, names
}
