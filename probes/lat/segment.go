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
