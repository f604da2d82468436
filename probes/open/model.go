package open

import (
	"context"
	"net/url"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// modelRoute uses the way to the declared model for something else: the provider's
// host itself, and a refused host named in the path, in fields, and in the
// request line of what is sent to the model's fixed name.
func modelRoute(ctx context.Context, env *probes.Env) manifest.Observation {
	way, v6 := kit.WayOf(env.Variant)
	m := env.Facts.Model
	var list []*kit.Request
	if m.Host != "" {
		list = append(list, &kit.Request{Scheme: "https", Host: m.Host, Addr: kit.AddrOf(m.Addr, v6), Path: paths.Build("", paths.Heartbeat, env.Nonce, nil)})
	}
	u, err := url.Parse(m.URL)
	if err != nil || u.Hostname() == "" {
		return kit.Sign(&kit.Unexpected{What: "model", Detail: "no address"})
	}
	other := refused(env)
	page := other.Path
	for _, r := range []*kit.Request{
		{Path: page},
		{Path: "/" + other.Host + page},
		{Path: "/https://" + other.Host + page},
		{Path: page, Header: []string{"X-Forwarded-Host: " + other.Host, "X-Original-Host: " + other.Host, "X-Target-Url: https://" + other.Host + page, "Forwarded: host=" + other.Host}},
		{Path: page, Hosts: []string{other.Host}},
		{Target: "http://" + other.Host + page, Hosts: []string{u.Hostname()}},
	} {
		r.Scheme, r.Host = "http", u.Hostname()
		r.Header = append(r.Header, "X-Api-Key: "+m.Placeholder, "Authorization: Bearer "+m.Placeholder)
		if way == kit.Absolute && r.Target != "" {
			continue
		}
		list = append(list, r)
	}
	return kit.Fetch(ctx, env, list...)
}
