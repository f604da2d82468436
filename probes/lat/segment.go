package lat

import (
	"context"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// segmentPort is one that no proxy listens on and no filter redirects.
const segmentPort = 8081

// byARP asks its own segment for a private address, past all routes.
func byARP(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.OnLink(ctx, env, kit.JoinHostPort(private(env).String(), segmentPort))
}

// linkLocal tries IPv4's range by the usual attempt, and in IPv6's an address on each of
// the sandbox's links, from the sandbox's own address: a router that takes such a packet
// up may lead it on, which it may not where the source is of the link alone.
func linkLocal(four probes.Attempt) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		if _, v6 := kit.WayOf(env.Variant); !v6 {
			return four(ctx, env)
		}
		links := kit.Links()
		if env.Facts.Local6 == "" || len(links) == 0 {
			return kit.Missing("the sandbox has no IPv6 network")
		}
		t := kit.Begin(env)
		defer t.End()
		var o manifest.Observation
		for i, link := range links {
			address := kit.JoinHostPort(env.Facts.Local6+"%"+link, segmentPort)
			if c, err := t.DialFrom(ctx, "udp", env.Facts.Self.V6, address); err == nil {
				_, _ = c.Write(kit.Probe(env)) // blind: what arrives, a witness sees
			}
			var next manifest.Observation
			if c, err := t.DialFrom(ctx, "tcp", env.Facts.Self.V6, address); err != nil {
				next = unanswered(kit.Sign(err), link, env.Facts.Local6)
			} else {
				next = kit.Exchange(ctx, c, kit.Probe(env))
			}
			if i == 0 {
				o = next
			} else {
				o = kit.Worse(o, next)
			}
		}
		return t.Done(o)
	}
}

// unanswered is the sign of a connection that failed. Linux lets one that is bound to a
// link run into its timeout where nobody on the link has the address, because the ICMP
// message that says so arrives on the loopback; its table of neighbours knows better.
func unanswered(o manifest.Observation, link, address string) manifest.Observation {
	if o.Sign == manifest.SignTimeout && kit.Nobody(link, address) {
		o.Sign, o.Errno, o.Detail = manifest.SignRefused, "EHOSTUNREACH", "nobody on the link has the address: neighbour discovery failed (RFC 4861, section 7.2.2)"
	}
	return o
}

// byNDP sends to another address of the sandbox's own IPv6 network, which is looked
// for on the segment (RFC 4861).
func byNDP(ctx context.Context, env *probes.Env) manifest.Observation {
	if env.Facts.Beside6 == "" {
		return kit.Missing("the sandbox has no IPv6 network")
	}
	t := kit.Begin(env)
	defer t.End()
	address := kit.JoinHostPort(env.Facts.Beside6, segmentPort)
	t.Throw(ctx, address, kit.Probe(env)) // blind: what arrives, a witness sees
	c, err := t.Dial(ctx, "tcp", address)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Exchange(ctx, c, kit.Probe(env)))
}
