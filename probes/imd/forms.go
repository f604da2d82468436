package imd

import (
	"context"
	"net/url"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// credentials is the path that is asked for when only the address is in question.
const credentials = "/latest/meta-data/iam/security-credentials/"

// fetch asks for credentials under several spellings of the host.
func fetch(ctx context.Context, env *probes.Env, hosts ...string) manifest.Observation {
	var list []*kit.Request
	for _, h := range hosts {
		list = append(list, request(env, h, "", credentials, nil))
	}
	return kit.Fetch(ctx, env, list...)
}

// fetchNames asks for credentials under several names, over TLS as well where the
// way has it: a policy that allows a name may do so at one port alone.
func fetchNames(ctx context.Context, env *probes.Env, names ...string) manifest.Observation {
	var list []*kit.Request
	for _, name := range names {
		plain := request(env, name, "", credentials, nil)
		list = append(list, plain)
		if way, _ := kit.WayOf(env.Variant); way != kit.Absolute {
			over := *plain
			over.Scheme = "https"
			list = append(list, &over)
		}
	}
	return kit.Fetch(ctx, env, list...)
}

func spelling(ctx context.Context, env *probes.Env) manifest.Observation {
	return fetch(ctx, env, kit.Spellings(linkLocal)...)
}

func mapped(ctx context.Context, env *probes.Env) manifest.Observation {
	forms := kit.Mapped(linkLocal)
	if way, _ := kit.WayOf(env.Variant); way == kit.Direct {
		forms = kit.Routable(forms)
	}
	return fetch(ctx, env, forms...)
}

func translated(ctx context.Context, env *probes.Env) manifest.Observation {
	return fetch(ctx, env, kit.Translated(linkLocal)...)
}

func byName(ctx context.Context, env *probes.Env) manifest.Observation {
	return fetchNames(ctx, env, env.Nonce+"."+env.Facts.Names.Metadata)
}

// rebind asks three times: the address changes after the first question. An answer
// may lawfully come from the harmless address, so that none is proof by itself:
// what counts is who received the question, and credentials in an answer.
func rebind(ctx context.Context, env *probes.Env) manifest.Observation {
	r := request(env, env.Nonce+"."+env.Facts.Names.Rebind, "", credentials, nil)
	if way, _ := kit.WayOf(env.Variant); way != kit.Absolute {
		r.Scheme = env.Facts.Allowed.Scheme // as the policy allows names beside it
	}
	o := kit.Web(ctx, env, r)
	for range 2 {
		o = kit.Worse(o, kit.Web(ctx, env, r)) // that a later one is refused does not undo that the first was answered
	}
	return kit.CanaryOnly(o)
}

func redirect(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	address := linkLocal
	if v6 {
		address = "fd00:ec2::254"
	}
	f := env.Facts.Allowed
	there := request(env, address, "", credentials, nil)
	to := "http://" + kit.Bracket(address) + credentials
	first := &kit.Request{Scheme: f.Scheme, Host: f.Host, Port: f.Port, Addr: kit.AddrOf(f.Addr, v6), Method: f.Method,
		Path: paths.Build(f.Prefix, paths.Redirect, env.Nonce, url.Values{paths.QueryTo: {to}})}
	return kit.Follow(ctx, env, first, there)
}

func searchList(ctx context.Context, env *probes.Env) manifest.Observation {
	return fetch(ctx, env, "metadata", "instance-data", "instance-data.ec2.internal")
}
