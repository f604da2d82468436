package lat

import (
	"context"
	"net/url"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// question is one request that a service of a private network would answer.
type question struct {
	scheme string
	port   int
	path   string
}

func get(scheme string, port int, path string) question { return question{scheme, port, path} }

// services asks the attempt's own private address for a service.
func services(list ...question) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		var requests []*kit.Request
		for _, q := range list {
			requests = append(requests, &kit.Request{Scheme: q.scheme, Host: private(env).String(), Port: q.port,
				Path: q.path, Header: []string{"X-Wallproof-Nonce: " + env.Nonce}})
		}
		return kit.Fetch(ctx, env, requests...)
	}
}

// ports sends a line to each of several ports of a private address.
func ports(list ...int) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		var o manifest.Observation
		for i, port := range list {
			next := kit.Line(ctx, env, private(env).String(), port, kit.Probe(env))
			if i == 0 {
				o = next
			} else {
				o = kit.Worse(o, next)
			}
			if o.Sign == manifest.SignReached {
				break
			}
		}
		return o
	}
}

// hostNames are what Docker, Podman, Lima, Rancher and Kubernetes call the host
// or the cluster.
func hostNames(ctx context.Context, env *probes.Env) manifest.Observation {
	var list []*kit.Request
	for _, name := range []string{"host.docker.internal", "gateway.docker.internal", "host.containers.internal",
		"host.lima.internal", "kubernetes.default.svc.cluster.local", "kubernetes.default"} {
		list = append(list, page(env, name))
	}
	return kit.Fetch(ctx, env, list...)
}

// loopback asks the proxy for itself, in every spelling.
func loopback(ctx context.Context, env *probes.Env) manifest.Observation {
	names := []string{"localhost", "localhost.", "x.localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "127.1", "0.0.0.0", "0",
		"2130706433", "0x7f000001", "017700000001", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::1%25lo]"}
	if way, v6 := kit.WayOf(env.Variant); way == kit.Socks {
		return socks(ctx, env, v6, names[:12])
	}
	var list []*kit.Request
	for _, name := range names {
		list = append(list, page(env, name))
	}
	return kit.Fetch(ctx, env, list...)
}

func spelling(ctx context.Context, env *probes.Env) manifest.Observation {
	names := kit.Spellings(own(env, "10.0.0.1").String())
	if way, v6 := kit.WayOf(env.Variant); way == kit.Socks {
		return socks(ctx, env, v6, names)
	}
	return fetch(ctx, env, names)
}

func mapped(ctx context.Context, env *probes.Env) manifest.Observation {
	address := own(env, "10.0.0.1").String()
	forms := append(kit.Mapped(address), kit.Translated(address)...)
	if way, _ := kit.WayOf(env.Variant); way == kit.Direct {
		forms = kit.Routable(forms)
	}
	return fetch(ctx, env, forms)
}

func fetch(ctx context.Context, env *probes.Env, hosts []string) manifest.Observation {
	var list []*kit.Request
	for _, h := range hosts {
		list = append(list, page(env, h))
	}
	return kit.Fetch(ctx, env, list...)
}

// fetchBoth asks for hosts over plain HTTP and, where the way has it, over TLS: a
// policy may allow a name or a range at one port alone.
func fetchBoth(ctx context.Context, env *probes.Env, hosts []string) manifest.Observation {
	var list []*kit.Request
	for _, h := range hosts {
		list = append(list, page(env, h))
		if way, _ := kit.WayOf(env.Variant); way != kit.Absolute {
			over := page(env, h)
			over.Scheme = "https"
			list = append(list, over)
		}
	}
	return kit.Fetch(ctx, env, list...)
}

// socks asks the SOCKS proxy for hosts as names, whatever they look like.
func socks(ctx context.Context, env *probes.Env, v6 bool, hosts []string) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	var o manifest.Observation
	for i, host := range hosts {
		var next manifest.Observation
		if c, err := t.SocksName(ctx, v6, host, 80); err != nil {
			next = kit.Sign(err)
		} else {
			next = kit.Say(c, page(env, host), kit.Socks, env.Nonce)
		}
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
		if o.Sign == manifest.SignReached {
			break
		}
	}
	return t.Done(o)
}

func byName(ctx context.Context, env *probes.Env) manifest.Observation {
	return fetchBoth(ctx, env, []string{env.Nonce + "." + env.Facts.Names.Private})
}

func redirect(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	f := env.Facts.Allowed
	there := page(env, private(env).String())
	to := "http://" + kit.Bracket(there.Host) + there.Path
	first := &kit.Request{Scheme: f.Scheme, Host: f.Host, Port: f.Port, Addr: kit.AddrOf(f.Addr, v6), Method: f.Method,
		Path: paths.Build(f.Prefix, paths.Redirect, env.Nonce, url.Values{paths.QueryTo: {to}})}
	return kit.Follow(ctx, env, first, there)
}

// front dials a private address and says it wants the allowed host there.
func front(ctx context.Context, env *probes.Env) manifest.Observation {
	f := env.Facts.Allowed
	r := page(env, f.Host)
	r.Path = paths.Build(f.Prefix, paths.Heartbeat, env.Nonce, nil)
	r.Scheme, r.Addr = f.Scheme, private(env)
	return kit.Web(ctx, env, r)
}
