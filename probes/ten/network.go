package ten

import (
	"bufio"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// neighbour is the neighbour's address of the variant's family.
func neighbour(env *probes.Env) string {
	_, v6 := kit.WayOf(env.Variant)
	return kit.Of(env.Facts.Tenant.Addr, v6)
}

func tcp(ctx context.Context, env *probes.Env) manifest.Observation {
	if neighbour(env) == "" {
		return kit.Missing("the neighbour has no address of this family")
	}
	return kit.Line(ctx, env, neighbour(env), env.Facts.Tenant.Port, kit.Probe(env))
}

func udp(ctx context.Context, env *probes.Env) manifest.Observation {
	if neighbour(env) == "" {
		return kit.Missing("the neighbour has no address of this family")
	}
	if _, v6 := kit.WayOf(env.Variant); v6 && env.Facts.Beside6 != "" {
		t := kit.Begin(env)
		defer t.End()
		t.Throw(ctx, kit.JoinHostPort(env.Facts.Beside6, env.Facts.Tenant.Port), kit.Probe(env)) // blind, to whoever else is on the segment
	}
	return kit.Datagram(ctx, env, kit.JoinHostPort(neighbour(env), env.Facts.Tenant.Port), kit.Probe(env))
}

func byName(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.Web(ctx, env, &kit.Request{Scheme: "http", Host: env.Facts.Tenant.Name, Port: env.Facts.Tenant.Port,
		Path: paths.Build("", paths.Heartbeat, env.Nonce, nil)})
}

// otherProxy asks the neighbour's proxy for the host that both may reach.
func otherProxy(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	o := overOther(ctx, t)
	if kit.Of(env.Facts.Tenant.SOCKS, strings.HasSuffix(env.Variant, "-v6")) != "" {
		o = kit.Worse(o, overOtherSocks(ctx, t))
	}
	return t.Done(o)
}

// overOtherSocks is overOther by SOCKS.
func overOtherSocks(ctx context.Context, t *kit.Try) manifest.Observation {
	env := t.Env
	_, v6 := kit.WayOf(env.Variant)
	f := env.Facts.Allowed
	c, err := t.Dial(ctx, "tcp", kit.Of(env.Facts.Tenant.SOCKS, v6))
	if err != nil {
		return kit.Sign(err)
	}
	if err := kit.SocksOver(c, f.Host, f.Port); err != nil {
		return kit.Sign(err)
	}
	r := &kit.Request{Scheme: f.Scheme, Host: f.Host, Port: f.Port, Method: f.Method, Path: paths.Build(f.Prefix, paths.Heartbeat, env.Nonce, nil)}
	if f.Scheme == "https" {
		if c, err = kit.StartTLS(ctx, c, r); err != nil {
			return kit.Sign(err)
		}
	}
	return kit.Say(c, r, kit.Connect, env.Nonce)
}

// overOther asks the neighbour's proxy for the allowed host.
func overOther(ctx context.Context, t *kit.Try) manifest.Observation {
	env := t.Env
	_, v6 := kit.WayOf(env.Variant)
	f := env.Facts.Allowed
	address := kit.Of(env.Facts.Tenant.Proxy, v6)
	if address == "" {
		return kit.Missing("the neighbour's proxy is not known")
	}
	c, err := t.Dial(ctx, "tcp", address)
	if err != nil {
		return kit.Sign(err)
	}
	r := &kit.Request{Scheme: f.Scheme, Host: f.Host, Port: f.Port, Method: f.Method, Path: paths.Build(f.Prefix, paths.Heartbeat, env.Nonce, nil)}
	way := kit.Absolute
	if f.Scheme == "https" {
		way = kit.Connect
		if c, err = kit.ConnectOver(c, kit.JoinHostPort(f.Host, f.Port), env.Nonce); err != nil {
			return kit.Sign(err)
		}
		if c, err = kit.StartTLS(ctx, c, r); err != nil {
			return kit.Sign(err)
		}
	}
	if _, err := c.Write(r.Bytes(way, env.Nonce)); err != nil {
		return kit.Sign(err)
	}
	a, err := kit.ReadAnswer(bufio.NewReader(c), r.Method)
	if err != nil {
		return kit.Sign(err)
	}
	return kit.Observe(a)
}

// controlAPI asks for the neighbour's sandbox and for what is done with it, in
// the forms that such interfaces have, and for one beside it. That a refusal
// differs from an absence would tell which ids exist.
func controlAPI(ctx context.Context, env *probes.Env) manifest.Observation {
	u, err := url.Parse(env.Facts.Tenant.ControlAPI)
	if err != nil || u.Hostname() == "" {
		return kit.Missing("the control API is not known")
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = 0 // the scheme's
	}
	var list []*kit.Request
	for _, path := range []string{"/v1/sandboxes/" + env.Facts.Tenant.ID, "/v1/sandboxes/" + env.Facts.Tenant.ID + "/exec", "/sandboxes", "/v1/sandboxes/1"} {
		list = append(list, &kit.Request{Scheme: u.Scheme, Host: u.Hostname(), Port: port, Path: strings.TrimSuffix(u.Path, "/") + path + "?n=" + env.Nonce})
	}
	return kit.Fetch(ctx, env, list...)
}

// swapped asks the host for which the neighbour's secret is injected to send
// back what it received. Only the neighbour's canary is proof.
func swapped(ctx context.Context, env *probes.Env, header ...string) manifest.Observation {
	s := env.Facts.Injected
	_, v6 := kit.WayOf(env.Variant)
	mark := env.Facts.Tenant.Placeholder
	value := strings.ReplaceAll(s.Value, s.Placeholder, mark)
	r := &kit.Request{Scheme: s.Scheme, Host: s.Host, Port: s.Port, Addr: kit.AddrOf(s.Addr, v6),
		Path:   paths.Build(s.Prefix, paths.Echo, env.Nonce, url.Values{paths.QueryEncoding: {paths.EncodingRaw}}),
		Header: append([]string{s.Header + ": " + value, "X-Token: " + mark}, header...)}
	return kit.CanaryOnly(kit.Web(ctx, env, r))
}

func placeholder(ctx context.Context, env *probes.Env) manifest.Observation {
	return swapped(ctx, env)
}

// identity adds the fields by which proxies are commonly told who is asking.
func identity(ctx context.Context, env *probes.Env) manifest.Observation {
	f := env.Facts.Tenant
	header := []string{"X-Forwarded-For: " + neighbour(env), "Forwarded: for=" + neighbour(env), "X-Real-IP: " + neighbour(env), "Proxy-Authorization: Bearer " + f.ID}
	for _, name := range append(slices.Clone(identityFields), env.Facts.ProxyFields...) {
		header = append(header, name+": "+f.ID)
	}
	return swapped(ctx, env, header...)
}

// identityFields are fields in which platforms write whose request one is.
var identityFields = []string{"X-Sandbox-Id", "X-Agent-Id", "X-Run-Id", "X-Tenant-Id", "X-Tenant", "X-Workspace-Id", "X-Session-Id", "X-User-Id", "X-Org-Id", "X-Project-Id",
	"X-Forwarded-User", "X-Remote-User", "X-Client-Id", "X-Identity", "X-Spiffe-Id", "X-Container-Id", "X-Pod-Name"}

// byHardware asks its own segment for the neighbour, past all routes.
func byHardware(ctx context.Context, env *probes.Env) manifest.Observation {
	if neighbour(env) == "" {
		return kit.Missing("the neighbour has no address of this family")
	}
	return kit.OnLink(ctx, env, kit.JoinHostPort(neighbour(env), env.Facts.Tenant.Port))
}
