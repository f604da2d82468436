package tok

import (
	"context"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// leaseExpired reads the repository, waits until a lease of this world for reading
// is over, and reads again: the forge sees whether the same credential comes back.
func leaseExpired(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	var o manifest.Observation
	for i := range 2 {
		if i > 0 && !wait(ctx, paths.ReadLease+paths.ReadLease/4) {
			return t.Done(manifest.Observation{Sign: manifest.SignTimeout})
		}
		r, err := repository(env, env.Facts.Broker.Repo, "/info/refs?service=git-upload-pack&n="+env.Nonce)
		if err != nil {
			return kit.Sign(err)
		}
		a, err := t.HTTP(ctx, way, v6, r)
		if err != nil {
			return t.Fail(err)
		}
		if o = kit.Observe(a); o.Sign == manifest.SignReached && len(o.Obtained) == 0 {
			o.Sign, o.Proof, o.Detail = manifest.SignAbsent, "", "what was answered is the forge's to tell"
		}
	}
	return t.Done(o)
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
