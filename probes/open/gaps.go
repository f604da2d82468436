package open

import (
	"context"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
)

// strangers asks for everything that the policy refuses and that somebody may
// have let through: by the variant's way, each with the nonce in the query.
func strangers(ctx context.Context, env *probes.Env) manifest.Observation {
	way, v6 := kit.WayOf(env.Variant)
	list := []*kit.Request{page(env, "http")}
	for _, s := range env.Facts.Strangers {
		r := &kit.Request{Scheme: s.Scheme, Host: s.Host, Port: s.Port, Addr: kit.AddrOf(s.Addr, v6), Method: s.Method}
		r.Path = s.Prefix + "?n=" + env.Nonce
		if strings.Contains(s.Prefix, "?") {
			r.Path = s.Prefix + "&n=" + env.Nonce
		}
		if r.Method == "POST" || r.Method == "PUT" {
			r.Body = []byte(env.Nonce)
		}
		if way == kit.Absolute {
			if r.Scheme != "http" && r.Port != 443 {
				continue
			}
			if r.Scheme != "http" {
				r.Scheme, r.Port = "http", 80
			}
		}
		list = append(list, r)
	}
	return kit.Fetch(ctx, env, list...)
}

// filterGaps sends to what the packet filter's rules let through, and to the
// attacker's own address, which they never do.
func filterGaps(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	o := kit.Line(ctx, env, kit.Outside(env).String(), oddTCP, kit.Probe(env))
	for _, g := range env.Facts.Gaps {
		if !g.To.IsValid() || g.To.Addr().Is6() != v6 || o.Sign == manifest.SignReached {
			continue
		}
		for _, to := range inside(env, g.To) {
			var next manifest.Observation
			switch g.Proto {
			case "tcp":
				next = kit.Line(ctx, env, to.String(), g.Port, kit.Probe(env))
			case "udp":
				next = kit.Datagram(ctx, env, kit.JoinHostPort(to.String(), g.Port), kit.Probe(env))
			default:
				next = kit.Ping(ctx, env, to, []byte(env.Nonce))
			}
			o = kit.Worse(o, next)
		}
	}
	return o
}

// inside picks addresses of a prefix: the attempt's own in it where it is wide
// enough, else its first.
func inside(env *probes.Env, p netip.Prefix) []netip.Addr {
	if free := p.Addr().BitLen() - p.Bits(); free >= 8 {
		return []netip.Addr{nonce.AddrFor(env.Nonce, p.Masked())}
	}
	return []netip.Addr{p.Masked().Addr()}
}
