package kit

import (
	"context"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
)

// OnLink sends to an address on every link of the sandbox's as if it were on the same
// network segment: a datagram, and a line over TCP. Where nobody there says that it has
// the address the kernel says so (EHOSTUNREACH).
func OnLink(ctx context.Context, env *probes.Env, address string) manifest.Observation {
	t := Begin(env)
	defer t.End()
	links := Links()
	if len(links) == 0 {
		return Missing("there is no link")
	}
	var o manifest.Observation
	for i, link := range links {
		if c, err := t.DialLink(ctx, "udp", address, link); err == nil {
			_, _ = c.Write(Probe(env)) // blind: what arrives, a witness sees
		}
		var next manifest.Observation
		if c, err := t.DialLink(ctx, "tcp", address, link); err != nil {
			next = Sign(err)
		} else {
			next = Exchange(ctx, c, Probe(env))
		}
		if i == 0 {
			o = next
		} else {
			o = Worse(o, next)
		}
	}
	return t.Done(o)
}
