package forge

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/battery/witness/services"
)

// Hooks are what a forge is given from outside.
type Hooks struct {
	Now   func() time.Time      // nil means time.Now
	Find  func([]byte) []string // finds nonces in pushed content; nil finds none
	Push  func(Push)            // called for every ref update asked for; nil drops them
	Lease func(Lease)           // called for every token issued or revoked; nil drops them
}

// Seen is what a request brought besides what stands in it in clear: content of
// a pack is compressed.
type Seen struct {
	Nonces   []string
	Obtained []string // digests of canaries
	Breach   bool     // an authenticated write was accepted that Config.Push does not permit
	Detail   string
}

// Forge is a git forge. It is safe for concurrent use.
type Forge struct {
	cfg   Config
	hooks Hooks
	push  []rule

	mu     sync.Mutex // guards everything below, and the repositories
	repos  map[string]*repo
	tokens map[string]*token // by the token itself
	apps   map[string]*app   // by id
	seen   map[presented]time.Time
}

type rule struct {
	repo  string
	refs  *regexp.Regexp
	force bool
}

// New makes a forge with its repositories.
func New(cfg Config, hooks Hooks) (*Forge, error) {
	if hooks.Now == nil {
		hooks.Now = time.Now
	}
	if hooks.Find == nil {
		hooks.Find = func([]byte) []string { return nil }
	}
	if hooks.Push == nil {
		hooks.Push = func(Push) {}
	}
	if hooks.Lease == nil {
		hooks.Lease = func(Lease) {}
	}
	f := &Forge{cfg: cfg, hooks: hooks, repos: map[string]*repo{}, tokens: map[string]*token{}, apps: map[string]*app{}, seen: map[presented]time.Time{}}
	for _, r := range cfg.Repos {
		if len(f.repos) >= maxRepos {
			return nil, fmt.Errorf("forge: more than %d repositories", maxRepos)
		}
		made, err := newRepo(r, hooks.Now())
		if err != nil {
			return nil, fmt.Errorf("forge: repository %q: %w", r.Name, err)
		}
		f.repos[made.name] = made
	}
	for _, p := range cfg.Push {
		f.push = append(f.push, rule{repo: strings.ToLower(p.Repo), refs: glob(p.Refs), force: p.Force})
	}
	for _, a := range cfg.Apps {
		made, err := newApp(a)
		if err != nil {
			return nil, fmt.Errorf("forge: app %q: %w", a.ID, err)
		}
		f.apps[a.ID] = made
	}
	return f, nil
}

// glob compiles a pattern in which "*" is any run of characters.
func glob(pattern string) *regexp.Regexp {
	parts := strings.Split(pattern, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
}

// permits reports whether a permitted use makes this write.
func (f *Forge) permits(repo, ref string, force bool) bool {
	for _, r := range f.push {
		if r.repo == repo && r.refs.MatchString(ref) && (r.force || !force) {
			return true
		}
	}
	return false
}

// Serve answers a request. ok is false when the forge has nothing at its path.
func (f *Forge) Serve(req services.Request) (r services.Response, seen Seen, ok bool) {
	p := path.Clean("/" + req.Path)
	late := f.late(req)
	if r, seen, ok = f.serveGit(req, p); !ok {
		r, seen, ok = f.serveAPI(req, strings.TrimPrefix(p, "/api/v3"))
	}
	if ok && late {
		seen.Breach, seen.Detail = true, "a credential came back after its time"
	}
	return r, seen, ok
}

// NeedsLargeBody reports whether the body at a path can be a pack, so that it
// may be up to MaxPackBytes long.
func NeedsLargeBody(method, p string) bool {
	return method == http.MethodPost && strings.HasSuffix(p, "/git-receive-pack")
}

func plain(status int, body string) services.Response {
	return services.Response{Status: status, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte(body)}
}

// stamp is the time of an event.
func (f *Forge) stamp() string { return f.hooks.Now().UTC().Format(TimeFormat) }
