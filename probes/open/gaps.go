package open

import (
	"context"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
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

// everywhere is all addresses of a family.
var everywhere = map[bool]netip.Prefix{false: netip.MustParsePrefix("0.0.0.0/0"), true: netip.MustParsePrefix("::/0")}

// filterGaps sends to what the packet filter's rules let through, and to the
// attacker's own address, which they never do.
func filterGaps(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	return kit.Gaps(ctx, env, everywhere[v6], kit.Line(ctx, env, kit.Outside(env).String(), oddTCP, kit.Probe(env)))
}
