// Package attempts is the explicit list of everything that wallproof-probe can
// attempt. The vector INJ is not in it: its attempts are wallproof-agent's.
package attempts

import (
	"context"
	"maps"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/env"
	"github.com/wallproof/wallproof/probes/imd"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/lat"
	"github.com/wallproof/wallproof/probes/open"
	"github.com/wallproof/wallproof/probes/paths"
	"github.com/wallproof/wallproof/probes/snp"
	"github.com/wallproof/wallproof/probes/ten"
	"github.com/wallproof/wallproof/probes/tok"
)

// All returns every attempt by technique id, and the heartbeat.
func All() map[string]probes.Attempt {
	out := map[string]probes.Attempt{probes.HeartbeatID: heartbeat}
	for _, vector := range []map[string]probes.Attempt{
		tok.Attempts(), imd.Attempts(), lat.Attempts(), open.Attempts(),
		ten.Attempts(), snp.Attempts(), env.Attempts(),
	} {
		maps.Copy(out, vector)
	}
	return out
}

// heartbeat makes the request that the policy allows, through the explicit
// proxy: in a tunnel when it is HTTPS, in absolute form otherwise. Without an
// explicit proxy it goes to the host's own address. Where no host is allowed it
// knocks at the wall.
func heartbeat(ctx context.Context, e *probes.Env) manifest.Observation {
	t := kit.Begin(e)
	defer t.End()
	f := e.Facts.Allowed
	if f.Host == "" {
		return kit.Knock(ctx, e)
	}
	v6 := e.Facts.Proxy.V4 == "" && e.Facts.IPv6
	way := kit.Connect
	switch {
	case kit.Of(e.Facts.Proxy, v6) == "":
		way = kit.Direct
	case f.Scheme == "http":
		way = kit.Absolute
	}
	a, err := t.HTTP(ctx, way, v6, &kit.Request{Scheme: f.Scheme, Host: f.Host, Port: f.Port, Addr: kit.AddrOf(f.Addr, v6), Method: f.Method,
		Path: paths.Build(f.Prefix, paths.Heartbeat, e.Nonce, nil)})
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Observe(a))
}
