package secret

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/wallproof/wallproof/policy/proxy/broker"
)

// Addresses and scope of Google's services.
const (
	gcpSecrets  = "https://secretmanager.googleapis.com"
	gcpMetadata = "http://metadata.google.internal"
	gcpScope    = "https://www.googleapis.com/auth/cloud-platform"
	grantJWT    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	gcpJWTLife  = 10 * time.Minute
)

// fromGCP reads a version of a secret of Google Secret Manager (REST,
// projects.secrets.versions.access) and checks its CRC32C.
func (r *Resolver) fromGCP(ctx context.Context, name string) (string, error) {
	client, err := r.client(nil)
	if err != nil {
		return "", err
	}
	token, err := r.gcpToken(ctx, client)
	if err != nil {
		return "", err
	}
	req, err := newRequest("GET", r.endpoint("gcp", gcpSecrets)+"/v1/"+escapePath(name)+":access", "", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	var answer struct {
		Payload struct {
			Data       string `json:"data"`
			DataCRC32C string `json:"dataCrc32c"`
		} `json:"payload"`
	}
	if err := r.call(ctx, client, req, &answer); err != nil {
		return "", err
	}
	data, err := base64.StdEncoding.DecodeString(answer.Payload.Data)
	if err != nil {
		return "", errors.New("the payload is not base64")
	}
	if want := answer.Payload.DataCRC32C; want != "" {
		sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		if want != strconv.FormatUint(uint64(sum), 10) {
			return "", errors.New("the payload does not match its checksum")
		}
	}
	return string(data), nil
}

// gcpToken gets an access token in the order of Application Default
// Credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, else the
// metadata server of the machine that we run on.
func (r *Resolver) gcpToken(ctx context.Context, client *http.Client) (string, error) {
	path := r.env("GOOGLE_APPLICATION_CREDENTIALS")
	if path == "" {
		return r.gcpMetadataToken(ctx, client)
	}
	b, err := r.read(path)
	if err != nil {
		return "", errFinal{err}
	}
	var c struct {
		Type         string `json:"type"`
		Email        string `json:"client_email"`
		Key          string `json:"private_key"`
		KeyID        string `json:"private_key_id"`
		TokenURI     string `json:"token_uri"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Refresh      string `json:"refresh_token"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return "", errFinal{fmt.Errorf("%s is not a credentials file", path)}
	}
	uri := firstOf(c.TokenURI, "https://oauth2.googleapis.com/token")
	switch c.Type {
	case "service_account":
		jwt, err := r.gcpJWT(c.Email, c.Key, c.KeyID, uri)
		if err != nil {
			return "", errFinal{err}
		}
		return r.exchangeToken(ctx, client, uri, url.Values{"grant_type": {grantJWT}, "assertion": {jwt}})
	case "authorized_user":
		return r.exchangeToken(ctx, client, uri, url.Values{
			"grant_type": {"refresh_token"}, "client_id": {c.ClientID}, "client_secret": {c.ClientSecret}, "refresh_token": {c.Refresh},
		})
	}
	return "", errFinal{fmt.Errorf("%s holds credentials of type %q; service_account and authorized_user are known", path, c.Type)}
}

func (r *Resolver) gcpMetadataToken(ctx context.Context, client *http.Client) (string, error) {
	req, err := newRequest("GET", r.endpoint("gcp-metadata", gcpMetadata)+"/computeMetadata/v1/instance/service-accounts/default/token", "", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Metadata-Flavor", "Google")
	var answer accessToken
	if err := r.call(ctx, client, req, &answer); err != nil {
		return "", err
	}
	return answer.token()
}

type accessToken struct {
	AccessToken string `json:"access_token"`
}

func (a accessToken) token() (string, error) {
	if a.AccessToken == "" {
		return "", errFinal{errors.New("the answer holds no access token")}
	}
	return a.AccessToken, nil
}

// gcpJWT signs a service account's assertion (RFC 7523).
func (r *Resolver) gcpJWT(email, keyPEM, keyID, audience string) (string, error) {
	key, err := broker.ParseKey([]byte(keyPEM))
	if err != nil {
		return "", errors.New("the service account's private key cannot be read")
	}
	now := r.now()
	head, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": keyID})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": email, "scope": gcpScope, "aud": audience, "iat": now.Unix(), "exp": now.Add(gcpJWTLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString(head) + "." + enc.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign the assertion: %w", err)
	}
	return text + "." + enc.EncodeToString(sig), nil
}

func (r *Resolver) exchangeToken(ctx context.Context, client *http.Client, uri string, form url.Values) (string, error) {
	req, err := newRequest("POST", uri, "application/x-www-form-urlencoded", []byte(form.Encode()))
	if err != nil {
		return "", err
	}
	var answer accessToken
	if err := r.call(ctx, client, req, &answer); err != nil {
		return "", err
	}
	return answer.token()
}
