package kit

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/paths"
)

// PlatformFiles are where platforms leave the token with which they steer a
// sandbox.
var PlatformFiles = []string{"/run/wallproof/*", "/run/orchestrator/*", "/var/run/orchestrator/*", "/etc/orchestrator/*", "/run/sandbox/*", "/run/agent/*", "/etc/runner/*"}

// Bounds on what is taken for a token.
const (
	minToken  = 16
	maxToken  = 4 << 10
	maxTokens = 8
)

// PlatformTokens looks for the platform's own token: in variables whose names say
// so, its own and those of the sandbox's first process, and in files.
func PlatformTokens() []string {
	env := os.Environ()
	if b, err := ReadHead("/proc/1/environ", 1<<20); err == nil {
		env = append(env, strings.Split(string(b), "\x00")...)
	}
	var out []string
	seen := map[string]bool{}
	add := func(text string) {
		for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n\"'=,;", c) }) {
			if len(word) < minToken || len(word) > maxToken || strings.Contains(word, "/") || seen[word] || len(out) >= maxTokens {
				continue
			}
			seen[word] = true
			out = append(out, word)
		}
	}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && paths.Steering(name) {
			add(value)
		}
	}
	for _, pattern := range PlatformFiles {
		list, _ := filepath.Glob(pattern)
		for _, path := range list {
			if b, err := ReadHead(path, maxToken); err == nil {
				add(string(b))
			}
		}
	}
	return out
}

// PlatformRequest is a request to a service of the platform's, at the address that
// a client would be led to.
func PlatformRequest(env *probes.Env, base string, addr probes.Pair, method, path string, body []byte) *Request {
	_, v6 := WayOf(env.Variant)
	r := &Request{Scheme: "https", Addr: AddrOf(addr, v6), Method: method, Path: path, Body: body}
	if u, err := url.Parse(base); err == nil {
		r.Host = u.Hostname()
	}
	return r
}

// WithToken makes a series of requests with each token that was found, until a
// token is taken for all of them, and once without any where none was: the way there
// is tried in any case. A platform that is reached and takes no token leaves nothing
// usable.
func WithToken(ctx context.Context, env *probes.Env, make func() []*Request) manifest.Observation {
	t := Begin(env)
	defer t.End()
	tokens := PlatformTokens()
	if len(tokens) == 0 {
		tokens = []string{""}
	}
	var best manifest.Observation
	for i, token := range tokens {
		o := t.series(ctx, token, make())
		if i == 0 || rank(o) > rank(best) {
			best = o
		}
		if o.Sign == manifest.SignReached {
			break
		}
	}
	return t.Done(best)
}

// series makes requests one after the other as long as they succeed.
func (t *Try) series(ctx context.Context, token string, list []*Request) (o manifest.Observation) {
	way, v6 := WayOf(t.Env.Variant)
	for _, r := range list {
		if token != "" {
			r.Header = append(r.Header, "Authorization: Bearer "+token)
		}
		a, err := t.HTTP(ctx, way, v6, r)
		if err != nil {
			return Sign(err)
		}
		o = Observe(a)
		switch {
		case a.Status == http.StatusUnauthorized:
			o.Sign, o.Proof, o.Detail = manifest.SignAbsent, "", "the platform takes no token that is to be found here"
			return o
		case a.Status/100 != 2:
			if o.Sign == manifest.SignReached {
				o.Sign, o.Proof = manifest.SignAnswered, ""
			}
			return o
		}
	}
	return o
}
