// Package model knows the two wire formats that models are spoken to in,
// OpenAI's and Anthropic's: what a request asks for, which tools the provider
// would run by itself, and how a request, an answer and a stream of one format
// look in the other. It is pure: bytes in, bytes out.
package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// API is a wire format.
type API string

// The wire formats.
const (
	OpenAI    API = "openai"
	Anthropic API = "anthropic"
)

// Bounds.
const (
	// MaxRequest bounds the body of a request: long contexts with images.
	MaxRequest = 48 << 20
	// MaxAnswer bounds an answer that has to be translated as a whole.
	MaxAnswer = 32 << 20
)

// Call is what a path of the model's interface means.
type Call struct {
	API     API    // the format that the client speaks
	Path    string // the path at the provider, from "/v1/" on
	Models  bool   // lists models; there is no body
	Convert bool   // can be translated into the other format
}

// ParseCall reads method and path. ok is false for everything that a sandbox
// has no business with: files, batches, fine-tuning, stored assistants.
func ParseCall(method, path string) (c Call, ok bool) {
	rest, found := strings.CutPrefix(path, "/v1/")
	if !found {
		rest = strings.TrimPrefix(path, "/") // a base URL with or without /v1
	}
	c.Path = "/v1/" + rest
	switch {
	case method == "POST" && rest == "chat/completions":
		c.API, c.Convert = OpenAI, true
	case method == "POST" && (rest == "responses" || rest == "completions" || rest == "embeddings"):
		c.API = OpenAI
	case method == "POST" && rest == "messages":
		c.API, c.Convert = Anthropic, true
	case method == "POST" && rest == "messages/count_tokens":
		c.API = Anthropic
	case method == "GET" && rest == "models", method == "GET" && strings.HasPrefix(rest, "models/") && !strings.Contains(rest, ".."):
		c.Models = true
	default:
		return Call{}, false
	}
	return c, true
}

// Request is a parsed request. It is written anew from what was understood, so
// the provider cannot read it in another way.
type Request struct {
	Model  string
	Also   []string // further models that may answer instead
	Stream bool
	body   map[string]any
}

// ErrRequest: the body is no request of the format.
var ErrRequest = errors.New("malformed model request")

// ParseRequest reads a request's body.
func ParseRequest(data []byte) (*Request, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	r := &Request{}
	if err := dec.Decode(&r.body); err != nil {
		return nil, fmt.Errorf("%w: not a JSON object", ErrRequest)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one value", ErrRequest)
	}
	if key := disguised(r.body, append([]string{"model", "models", "fallbacks", "stream", "tools", "prompt"}, hostedKeys...)...); key != "" {
		return nil, fmt.Errorf("%w: a member that some servers read as %s", ErrRequest, key)
	}
	var ok bool
	if r.Model, ok = r.body["model"].(string); !ok || r.Model == "" {
		return nil, fmt.Errorf("%w: no model", ErrRequest)
	}
	for _, key := range []string{"models", "fallbacks"} {
		list, _ := r.body[key].([]any)
		for _, m := range list {
			name, ok := m.(string)
			if !ok {
				return nil, fmt.Errorf("%w: %s", ErrRequest, key)
			}
			r.Also = append(r.Also, name)
		}
	}
	r.Stream, _ = r.body["stream"].(bool)
	return r, nil
}

// disguised finds a member that is one of keys in another case: servers that
// compare names without case would read it as that one.
func disguised(object map[string]any, keys ...string) string {
	for name := range object {
		for _, key := range keys {
			if name != key && strings.EqualFold(name, key) {
				return key
			}
		}
	}
	return ""
}

// Bytes writes the request.
func (r *Request) Bytes() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.body); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Listed says whether a model is on a list of ids and "vendor/*".
func Listed(list []string, id string) bool {
	for _, entry := range list {
		if entry == id {
			return true
		}
		if vendor, ok := strings.CutSuffix(entry, "/*"); ok && strings.HasPrefix(id, vendor+"/") {
			return true
		}
	}
	return false
}
