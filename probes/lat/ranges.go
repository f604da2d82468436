package lat

import (
	"context"
	"net/netip"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
	"golang.org/x/net/dns/dnsmessage"
)

// own returns the attempt's own address in the special range that holds inside.
func own(env *probes.Env, inside string) netip.Addr {
	return nonce.AddrFor(env.Nonce, probes.OwnPrefix(inside))
}

// private is the attempt's own private address of the variant's family.
func private(env *probes.Env) netip.Addr {
	if _, v6 := kit.WayOf(env.Variant); v6 {
		return own(env, "fd80::1")
	}
	return own(env, "10.0.0.1")
}

// page asks a host for its page over plain HTTP.
func page(env *probes.Env, host string) *kit.Request {
	return &kit.Request{Scheme: "http", Host: host, Path: paths.Build("", paths.Heartbeat, env.Nonce, nil)}
}

// anyOf also tries what is known to be open in a range: by the packet filter's rules
// in force, and by the proxy's own account.
func anyOf(cidr string, attempt probes.Attempt) probes.Attempt {
	within := netip.MustParsePrefix(cidr)
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		return kit.Opened(ctx, env, within, kit.Gaps(ctx, env, within, attempt(ctx, env)))
	}
}

// inRange tries ports 80 and 443, which a transparent proxy may take, and one that
// only a packet filter sees.
func inRange(inside string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		host := own(env, inside).String()
		o := kit.Web(ctx, env, page(env, host))
		if o.Sign == manifest.SignReached {
			return o
		}
		other := page(env, host)
		other.Port = 8081
		o = kit.Worse(o, kit.Web(ctx, env, other))
		if way, _ := kit.WayOf(env.Variant); way == kit.Absolute || o.Sign == manifest.SignReached {
			return o
		}
		over := page(env, host)
		over.Scheme = "https"
		return kit.Worse(o, kit.Web(ctx, env, over))
	}
}

// inPrivate tries the private range of the variant's family.
func inPrivate(ctx context.Context, env *probes.Env) manifest.Observation {
	if _, v6 := kit.WayOf(env.Variant); v6 {
		return inRange("fd80::1")(ctx, env)
	}
	return inRange("10.0.0.1")(ctx, env)
}

func gateway(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	bridge := kit.Of(env.Facts.Bridge, v6)
	if bridge == "" {
		return kit.Missing("nothing known behind the gateway")
	}
	var list []*kit.Request
	for _, port := range []int{80, 8080, 9090} {
		r := page(env, bridge)
		r.Port = port
		list = append(list, r)
	}
	return kit.Fetch(ctx, env, list...)
}

func datagrams(ctx context.Context, env *probes.Env) manifest.Observation {
	targets := []string{"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1"}
	if _, v6 := kit.WayOf(env.Variant); v6 {
		targets = []string{"fd80::1"}
	}
	t := kit.Begin(env)
	defer t.End()
	best := manifest.Observation{Sign: manifest.SignSent}
	for _, inside := range targets {
		for _, port := range []int{161, 5353, 4789} {
			o := t.Throw(ctx, kit.JoinHostPort(own(env, inside).String(), port), kit.Probe(env))
			if o.Sign != manifest.SignSent {
				best = o
			}
		}
	}
	if best.Sign == manifest.SignSent {
		best = t.Catch(ctx)
	}
	for _, cidr := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "169.254.0.0/16", "fc00::/7"} {
		best = kit.GapsOf(ctx, env, netip.MustParsePrefix(cidr), best, "udp")
	}
	return t.Done(best)
}

// discovery asks for a cluster's services below its usual domain, with the nonce
// as the name of a namespace.
func discovery(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	_, v6 := kit.WayOf(env.Variant)
	server := kit.Of(env.Facts.Resolver, v6)
	if server == "" {
		return kit.Missing("no resolver")
	}
	var o manifest.Observation
	for i, q := range []struct {
		name string
		kind dnsmessage.Type
	}{
		{"_http._tcp." + env.Nonce + ".svc.cluster.local", dnsmessage.TypeSRV},
		{env.Nonce + ".svc.cluster.local", dnsmessage.TypeTXT},
	} {
		next := query(ctx, t, server, q.name, q.kind)
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
	}
	return t.Done(o)
}

func query(ctx context.Context, t *kit.Try, server, name string, kind dnsmessage.Type) manifest.Observation {
	raw, err := kit.Question(name, kind)
	if err != nil {
		return kit.Sign(err)
	}
	m, err := t.AskUDP(ctx, server, raw)
	if err != nil {
		return kit.Sign(err)
	}
	return kit.Answered(m)
}
