package proxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/broker"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// Services of git's smart HTTP protocol.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// maxSpool is how much of a push is held back while it is checked. Commits
// come first in a pack, so this is plenty unless a history is huge.
const maxSpool = 32 << 20

// lease adds a lease to a request about a brokered repository, after a push was
// found to be one that the policy allows. A push to any other repository of a
// broker's host is refused, whatever credential it carries.
func (o *origin) lease(ctx context.Context, r *rules, q *request, ask policy.Request, ev *Event) *refusal {
	o.dropStrangers(r, q)
	l, ok := r.ev.Repository(ask, q.query)
	if !ok {
		return o.apiLease(ctx, r, q, ev)
	}
	push := l.Service == receivePack
	if q.scheme != "https" {
		return deny(403, ReasonLeaseRepository) // a lease never travels in clear
	}
	if l.Repository == nil {
		if push && !o.s.breaks.skip(repositoryScope) {
			return deny(403, ReasonLeaseRepository)
		}
		if !push {
			return nil // a public repository, with nothing of ours
		}
	}
	if push && l.Repository != nil && len(l.Repository.Push) == 0 && !o.s.breaks.skip(refScope) {
		return deny(403, ReasonLeaseRef)
	}
	le, ref := o.s.leases.get(ctx, l.Broker, l.Name, push)
	if ref != nil {
		return ref
	}
	// Whatever the client sent as a credential goes.
	q.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x-access-token:"+le.token)))
	ev.Leases = append(ev.Leases, le.id)
	if push {
		q.header.Del("Git-Protocol") // one form of the protocol, the one that is read below
	}
	if push && q.method == "POST" {
		return o.checkPush(ctx, r, q, l, le)
	}
	return nil
}

// gitCredentials are the fields in which git hosts take a credential.
var gitCredentials = []string{"Authorization", "Private-Token", "Job-Token"}

// dropStrangers takes whatever credential the client sent away from a request to a
// broker's host: it is not for the sandbox to hold one, and one that it got elsewhere, another
// sandbox's lease or a token of an attacker's, would write where no lease may.
func (o *origin) dropStrangers(r *rules, q *request) {
	if o.s.breaks.skip(strangersCredential) {
		return
	}
	for i := range r.policy.Broker {
		b := &r.policy.Broker[i]
		u, err := host.ParseURL(b.API)
		if q.host.String() != b.Host && (err != nil || u.Host != q.host) {
			continue
		}
		for _, name := range gitCredentials {
			q.header.Del(name)
		}
		return
	}
}

// apiLease lets a sandbox read a brokered repository over the forge's REST
// interface: with a lease that cannot write, as a write there would pass by the
// ref patterns.
func (o *origin) apiLease(ctx context.Context, r *rules, q *request, ev *Event) *refusal {
	if o.s.breaks.skip(apiReadOnly) && q.scheme == "https" && q.method != "GET" && q.method != "HEAD" {
		return o.writeLease(ctx, r, q, ev)
	}
	if q.scheme != "https" || q.method != "GET" && q.method != "HEAD" || len(r.policy.Broker) == 0 {
		return nil
	}
	for i := range r.policy.Broker {
		b := &r.policy.Broker[i]
		u, err := host.ParseURL(b.API)
		if err != nil || u.Host != q.host || u.Port != q.port {
			continue
		}
		path, err := host.CleanPath(q.path)
		if err != nil {
			return nil
		}
		rest, ok := strings.CutPrefix(strings.ToLower(path), strings.ToLower(strings.TrimSuffix(u.Path, "/"))+"/repos/")
		if !ok {
			continue
		}
		for j := range b.Repositories {
			name := b.Repositories[j].Name
			if rest != name && !strings.HasPrefix(rest, name+"/") {
				continue
			}
			le, ref := o.s.leases.get(ctx, b, name, false)
			if ref != nil {
				return ref
			}
			q.header.Set("Authorization", "Bearer "+le.token)
			ev.Leases = append(ev.Leases, le.id)
			return nil
		}
	}
	return nil
}

// writeLease is what a seeded break adds to any write at a broker's host.
func (o *origin) writeLease(ctx context.Context, r *rules, q *request, ev *Event) *refusal {
	for i := range r.policy.Broker {
		b := &r.policy.Broker[i]
		u, err := host.ParseURL(b.API)
		if len(b.Repositories) == 0 || q.host.String() != b.Host && (err != nil || u.Host != q.host) {
			continue
		}
		le, ref := o.s.leases.get(ctx, b, b.Repositories[0].Name, true)
		if ref != nil {
			return ref
		}
		q.header.Set("Authorization", "Bearer "+le.token)
		ev.Leases = append(ev.Leases, le.id)
		return nil
	}
	return nil
}

// checkPush reads what a push would do and refuses it unless the policy allows
// all of it. The request goes on with the same bytes.
func (o *origin) checkPush(ctx context.Context, r *rules, q *request, l policy.Lease, le *lease) *refusal {
	if q.body == nil {
		return deny(403, ReasonLeasePush)
	}
	if q.expect != nil {
		if q.expect() != nil {
			return deny(400, ReasonLeasePush)
		}
		q.expect = nil
	}
	if ref := decodePush(q); ref != nil {
		return ref
	}
	// What is held back stays in memory until it was sent.
	if err := o.s.heavy.Acquire(ctx, maxSpool); err != nil {
		return &refusal{status: 502, reason: ReasonLeasePush, err: err}
	}
	q.done = append(q.done, func() { o.s.heavy.Release(maxSpool) })
	push, err := broker.ReadPush(q.body)
	if err != nil {
		return &refusal{status: 403, reason: ReasonLeasePush, err: err}
	}
	if ref := o.checkCommands(push, l); ref != nil {
		return ref
	}
	spool := bytes.NewBuffer(push.Raw)
	if ref := o.checkForward(ctx, r, q, l, le, push, spool); ref != nil {
		return ref
	}
	q.body = io.MultiReader(spool, q.body)
	return nil
}

// decodePush undoes gzip, which git uses for requests, so that what is read is
// what is sent on.
func decodePush(q *request) *refusal {
	if q.header.Count("Content-Encoding") > 1 {
		return deny(403, ReasonLeasePush)
	}
	switch coding := q.header.Get("Content-Encoding"); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(q.body)
		if err != nil {
			return &refusal{status: 403, reason: ReasonLeasePush, err: err}
		}
		q.body, q.length = z, httpx.Chunked
		q.header.Del("Content-Encoding")
	default:
		return deny(403, ReasonLeasePush)
	}
	return nil
}

// checkCommands looks at refs and deletions.
func (o *origin) checkCommands(push *broker.Push, l policy.Lease) *refusal {
	for _, c := range push.Commands {
		if !o.s.breaks.skip(refScope) && l.Repository != nil && !l.AllowsPush(c.Ref) {
			return deny(403, ReasonLeaseRef)
		}
		if c.Deletes() && !o.s.breaks.skip(forceRefusal) {
			return deny(403, ReasonLeaseDelete)
		}
	}
	return nil
}

// checkForward makes sure that every update is a fast-forward: what it claims to
// replace is what the forge has, and what it puts there descends from it, as the
// pack's own commits show or the forge says. A push that cannot be shown to be
// one is refused.
func (o *origin) checkForward(ctx context.Context, r *rules, q *request, l policy.Lease, le *lease, push *broker.Push, spool *bytes.Buffer) *refusal {
	if o.s.breaks.skip(forceRefusal) || len(push.Commands) == 0 {
		return nil
	}
	refs, ref := o.advertised(ctx, r, q, le)
	if ref != nil {
		return ref
	}
	var updates []broker.Command
	for _, c := range push.Commands {
		if now, there := refs[c.Ref]; c.Creates() == there || there && now != c.Old {
			return deny(403, ReasonLeaseForce)
		}
		if !c.Creates() && c.Old != c.New {
			updates = append(updates, c)
		}
	}
	if len(updates) == 0 {
		return nil
	}
	return o.checkAncestry(ctx, q, l, le, updates, spool)
}

func (o *origin) checkAncestry(ctx context.Context, q *request, l policy.Lease, le *lease, updates []broker.Command, spool *bytes.Buffer) *refusal {
	shown := func(h *broker.History) bool {
		for _, c := range updates {
			if !h.Reaches(c.New, c.Old) {
				return false
			}
		}
		return true
	}
	history, err := broker.ScanPack(q.body, spool, maxSpool, len(updates[0].New), shown)
	if err != nil && !errors.Is(err, broker.ErrSpool) {
		return &refusal{status: 403, reason: ReasonLeasePush, err: err}
	}
	for _, c := range updates {
		if history.Reaches(c.New, c.Old) {
			continue
		}
		// A commit that is not in the pack is one that the forge has.
		if !history.Has(c.New) {
			if ahead, err := le.app.Ahead(ctx, le.token, l.Name, c.Old, c.New); err == nil && ahead {
				continue
			}
		}
		return deny(403, ReasonLeaseForce)
	}
	return nil
}

// maxAdvertisement bounds the list of a repository's refs.
const maxAdvertisement = 64 << 20

// advertised asks the forge which refs the repository has now.
func (o *origin) advertised(ctx context.Context, r *rules, q *request, le *lease) (map[string]string, *refusal) {
	ask := &request{
		target: q.target, scheme: q.scheme, method: "GET",
		path:  strings.TrimSuffix(q.path, "/"+receivePack) + "/info/refs",
		query: "service=" + receivePack, hasQuery: true,
		header: httpx.Header{
			{Name: "Authorization", Value: q.header.Get("Authorization")},
			{Name: "User-Agent", Value: "git/2.0 (wallproof)"},
			{Name: "Accept-Encoding", Value: "identity"},
		},
	}
	resp, ref := o.roundTrip1(ctx, r, ask)
	if ref != nil {
		return nil, ref
	}
	if resp.status != 200 || resp.body == nil {
		resp.release(false)
		return nil, deny(502, ReasonLeaseForce)
	}
	body := io.LimitReader(resp.body, maxAdvertisement)
	refs, err := broker.ReadAdvertisement(body)
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	resp.release(err == nil)
	if err != nil {
		return nil, &refusal{status: 502, reason: ReasonLeaseForce, err: err}
	}
	return refs, nil
}
