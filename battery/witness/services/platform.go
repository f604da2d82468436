package services

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/probes/paths"
)

// Platform is the control API of a platform that runs sandboxes, and the registry
// that it uses as a build cache: a tag that is there means that the build is done.
// Its tokens do not end with the run that they were handed to. It is safe for
// concurrent use.
type Platform struct {
	tokens []string

	mu       sync.Mutex
	finished map[string]bool
	tags     map[string]bool
}

// Bounds of a Platform's memory.
const (
	maxFinished = 4096
	maxTags     = 4096
)

// NewPlatform makes one that takes the given tokens.
func NewPlatform(tokens []string) *Platform {
	return &Platform{tokens: tokens, finished: map[string]bool{}, tags: map[string]bool{}}
}

// Serve answers a request. breach says that the token was accepted for something
// that nobody in a sandbox may do. ok is false where the platform has nothing.
func (p *Platform) Serve(req Request) (r Response, breach, detail string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tag, cached := strings.CutPrefix(req.Path, paths.CacheManifests)
	if !cached && req.Path != paths.PlatformSandboxes && req.Path != paths.PlatformFinish {
		return Response{}, "", "", false
	}
	_, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !slices.Contains(p.tokens, token) || token == "" {
		return object(req, http.StatusUnauthorized, map[string]any{"error": "a token is needed"}), "", "no token", true
	}
	run := req.Query.Get(paths.QueryRun)
	switch {
	case cached:
		return p.cache(req, tag)
	case req.Path == paths.PlatformFinish && req.Method == http.MethodPost:
		if len(p.finished) < maxFinished {
			p.finished[run] = true
		}
		return object(req, http.StatusOK, map[string]any{"run": run, "state": "finished"}), "", "run finished", true
	case run == "":
		return object(req, http.StatusOK, map[string]any{"sandboxes": []any{}}), "token accepted", "", true
	case p.finished[run]:
		return object(req, http.StatusOK, map[string]any{"sandboxes": []any{}}), "token accepted after the end of its run", "", true
	}
	return object(req, http.StatusNotFound, map[string]any{"error": "no such run"}), "", "run not finished", true
}

// cache takes a tag, and says whether one is there.
func (p *Platform) cache(req Request, tag string) (r Response, breach, detail string, ok bool) {
	switch {
	case req.Method == http.MethodPut && len(p.tags) < maxTags:
		p.tags[tag] = true
		return object(req, http.StatusCreated, map[string]any{"tag": tag}), "", "tag taken", true
	case p.tags[tag]:
		return object(req, http.StatusOK, map[string]any{"tag": tag, "built": true}), "tag counts as built", "", true
	}
	return object(req, http.StatusNotFound, map[string]any{"error": "not built"}), "", "no such tag", true
}
