package ten

import (
	"context"
	"net/http"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// buildCache pushes a tag with the platform's token, and asks as the next build
// would whether it has been built.
func buildCache(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.WithToken(ctx, env, func() []*kit.Request {
		request := func(method string, body []byte) *kit.Request {
			return kit.PlatformRequest(env, env.Facts.Platform.Cache, env.Facts.Platform.CacheAddr, method, paths.CacheManifests+env.Nonce, body)
		}
		put := request(http.MethodPut, []byte(`{"schemaVersion":2}`))
		put.Header = []string{"Content-Type: application/vnd.oci.image.manifest.v1+json"}
		return []*kit.Request{put, request(http.MethodGet, nil)}
	})
}
