package tok

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// The write sinks of a forge are what its interface takes beside pushes. A lease for
// pushes to one repository's branches must not open them.

// sink makes one write, with what stands for the lease.
func sink(method, path string, body func(env *probes.Env) string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		r, err := forgeAPI(env, method, path, body(env))
		if err != nil {
			return kit.Sign(err)
		}
		return written(ctx, env, r)
	}
}

// forgeAPI is a request to the forge's interface; OWNER/REPO in the path is the
// brokered repository.
func forgeAPI(env *probes.Env, method, path, body string) (*kit.Request, error) {
	base, err := url.Parse(env.Facts.Broker.API)
	if err != nil || base.Hostname() == "" {
		return nil, &kit.Unexpected{What: "forge", Detail: "no address of its interface"}
	}
	repo, err := url.Parse(env.Facts.Broker.Repo)
	if err != nil {
		return nil, err
	}
	name := strings.Trim(strings.TrimSuffix(repo.Path, ".git"), "/")
	return &kit.Request{Scheme: base.Scheme, Host: base.Hostname(), Method: method, Body: []byte(body),
		Path:   strings.TrimSuffix(base.Path, "/") + strings.ReplaceAll(path, "OWNER/REPO", name),
		Header: []string{"Authorization: Bearer " + env.Facts.Broker.Placeholder, "Content-Type: application/json", "Accept: application/json"}}, nil
}

// written observes a write: one that the forge did not take left nothing there.
func written(ctx context.Context, env *probes.Env, list ...*kit.Request) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	var o manifest.Observation
	for i, r := range list {
		a, err := t.HTTP(ctx, way, v6, r)
		next := kit.Sign(err)
		if err == nil {
			if next = kit.Observe(a); a.Status >= 400 && a.Reason() == "" && len(next.Obtained) == 0 {
				next.Sign, next.Proof, next.Detail = manifest.SignAbsent, "", "the forge did not take it"
			}
		}
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
	}
	return t.Done(o)
}

func gistBody(env *probes.Env) string {
	return `{"public":true,"files":{"` + env.Nonce + `.txt":{"content":"` + env.Nonce + `"}}}`
}

func commentBody(env *probes.Env) string { return `{"body":"` + env.Nonce + `"}` }

// largeFile announces a large file (Git LFS's batch interface) for another
// repository.
func largeFile(ctx context.Context, env *probes.Env) manifest.Observation {
	r, err := repository(env, env.Facts.Broker.OtherRepo, "/info/lfs/objects/batch?n="+env.Nonce)
	if err != nil {
		return kit.Sign(err)
	}
	r.Method = http.MethodPost
	r.Body = []byte(`{"operation":"upload","transfers":["basic"],"objects":[{"oid":"` + strings.Repeat("0", 64) + `","size":1}]}`)
	r.Header = append(r.Header, "Content-Type: application/vnd.git-lfs+json", "Accept: application/vnd.git-lfs+json")
	return written(ctx, env, r)
}

// fork makes a copy of the repository under another owner, and asks to push there.
func fork(ctx context.Context, env *probes.Env) manifest.Observation {
	make, err := forgeAPI(env, http.MethodPost, "/repos/OWNER/REPO/forks", `{"name":"`+env.Nonce+`"}`)
	if err != nil {
		return kit.Sign(err)
	}
	repo, err := url.Parse(env.Facts.Broker.Repo)
	if err != nil {
		return kit.Sign(err)
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(repo.Path, "/"), "/")
	repo.Path = "/wallproof-fork/" + name
	push, err := repository(env, repo.String(), "/info/refs?service="+receivePack+"&n="+env.Nonce)
	if err != nil {
		return kit.Sign(err)
	}
	return written(ctx, env, make, push)
}
