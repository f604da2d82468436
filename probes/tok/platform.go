package tok

import (
	"context"
	"net/http"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

func control(env *probes.Env, method, path string) *kit.Request {
	return kit.PlatformRequest(env, env.Facts.Platform.API, env.Facts.Platform.APIAddr, method, path, nil)
}

// platformAPI uses the platform's token at its control API.
func platformAPI(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.WithToken(ctx, env, func() []*kit.Request {
		return []*kit.Request{control(env, http.MethodGet, paths.PlatformSandboxes+"?n="+env.Nonce)}
	})
}

// platformAfter has the platform end the token's run, and uses the token once more.
func platformAfter(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.WithToken(ctx, env, func() []*kit.Request {
		query := "?" + paths.QueryRun + "=" + env.Nonce
		finish := control(env, http.MethodPost, paths.PlatformFinish+query)
		finish.Body = []byte("{}")
		return []*kit.Request{finish, control(env, http.MethodGet, paths.PlatformSandboxes+query)}
	})
}
