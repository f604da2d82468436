package secret

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/wallproof/wallproof/policy"
)

// fromAWS reads a secret, or one member of a JSON secret, of AWS Secrets
// Manager (GetSecretValue). The credentials are those of the environment:
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
func (r *Resolver) fromAWS(ctx context.Context, s *policy.AWSSource) (string, error) {
	region := firstOf(s.Region, r.env("AWS_REGION"), r.env("AWS_DEFAULT_REGION"))
	id, key := r.env("AWS_ACCESS_KEY_ID"), r.env("AWS_SECRET_ACCESS_KEY")
	switch {
	case region == "":
		return "", errFinal{errors.New("no region; set aws.region in the policy or AWS_REGION")}
	case id == "" || key == "":
		return "", errFinal{errors.New("no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")}
	}
	ask := map[string]string{"SecretId": s.ID}
	if s.Version != "" {
		ask["VersionId"] = s.Version
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return "", err
	}
	req, err := newRequest("POST", r.endpoint("aws", "https://secretsmanager."+region+".amazonaws.com")+"/", "application/x-amz-json-1.1", body)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Amz-Target", "secretsmanager.GetSecretValue")
	if token := r.env("AWS_SESSION_TOKEN"); token != "" {
		req.Header.Set("X-Amz-Security-Token", token)
	}
	r.signAWS(req, body, region, "secretsmanager", id, key)
	client, err := r.client(nil)
	if err != nil {
		return "", err
	}
	var answer struct{ SecretString string }
	if err := r.call(ctx, client, req, &answer); err != nil {
		return "", err
	}
	if s.Field == "" {
		return answer.SecretString, nil
	}
	return member(answer.SecretString, s.Field)
}

// member picks a text out of a JSON object.
func member(text, field string) (string, error) {
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return "", errFinal{errors.New("the secret is no JSON object")}
	}
	v, ok := m[field].(string)
	if !ok {
		return "", fmt.Errorf("%w: member %q is not there or not a text", ErrMissing, field)
	}
	return v, nil
}

// signAWS signs with Signature Version 4 ("Create a signed AWS API request").
func (r *Resolver) signAWS(req *http.Request, body []byte, region, service, id, key string) {
	now := r.now().UTC()
	stamp, day := now.Format("20060102T150405Z"), now.Format("20060102")
	req.Header.Set("X-Amz-Date", stamp)
	names := []string{"host"}
	values := map[string]string{"host": req.URL.Host}
	for name := range req.Header {
		low := strings.ToLower(name)
		names = append(names, low)
		values[low] = strings.TrimSpace(req.Header.Get(name))
	}
	sort.Strings(names)
	var head strings.Builder
	for _, n := range names {
		head.WriteString(n + ":" + values[n] + "\n")
	}
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{req.Method, "/", "", head.String(), signed, hexSHA256(body)}, "\n")
	scope := day + "/" + region + "/" + service + "/aws4_request"
	text := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hexSHA256([]byte(canonical))}, "\n")
	sign := []byte("AWS4" + key)
	for _, part := range []string{day, region, service, "aws4_request", text} {
		sign = hmacSHA256(sign, part)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+id+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(sign))
}

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
