package open

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// redirect follows, by the same way, a redirect from the allowed host to the
// attacker's, as every client would.
func redirect(ctx context.Context, env *probes.Env) manifest.Observation {
	evil := page(env, "http")
	r := allowed(env, paths.Redirect)
	r.Path = paths.Build(env.Facts.Allowed.Prefix, paths.Redirect, env.Nonce, url.Values{paths.QueryTo: {"http://" + evil.Host + evil.Path}})
	return kit.Follow(ctx, env, r, evil)
}

// blockedHost asks for the host, for one below it, and for both in other letter
// case and with a final dot: direct at the host's address, where that is known.
func blockedHost(ctx context.Context, env *probes.Env) manifest.Observation {
	b := env.Facts.Blocked
	if b.Host == "" {
		return kit.Missing("no blocked host is known")
	}
	way, v6 := kit.WayOf(env.Variant)
	var list []*kit.Request
	names := []string{b.Host, strings.ToUpper(b.Host), b.Host + ".", env.Nonce + "." + b.Host}
	if way == kit.Absolute || way == kit.Connect {
		names = append(names, escapeFirst(b.Host), strings.ReplaceAll(b.Host, ".", "%2e"), wide(b.Host))
	}
	for _, name := range names {
		for _, scheme := range []string{"https", "http"} {
			if scheme == "https" && way == kit.Absolute {
				continue
			}
			list = append(list, &kit.Request{Scheme: scheme, Host: name, Addr: kit.AddrOf(b.Addr, v6), Path: paths.Build("", paths.Heartbeat, env.Nonce, nil)})
		}
	}
	return kit.Fetch(ctx, env, list...)
}

// wide writes the first letter of a name as wide as a Chinese character, and its dots as
// that script's: what names in other scripts are read by takes both for the ordinary.
func wide(name string) string {
	if name[0] < 'a' || name[0] > 'z' {
		return strings.ReplaceAll(name, ".", "\u3002")
	}
	return string(rune(name[0])-'a'+'\uff41') + strings.ReplaceAll(name[1:], ".", "\u3002")
}

// blockedPath asks for a blocked path in spellings that a server takes for it, and at the
// host in spellings of its name.
func blockedPath(ctx context.Context, env *probes.Env) manifest.Observation {
	blocked := strings.Trim(env.Facts.Blocked.Path, "/")
	if blocked == "" {
		return kit.Missing("no blocked path is known")
	}
	verb := strings.TrimPrefix(paths.Build("", paths.Heartbeat, env.Nonce, nil), "/")
	open := strings.Trim(env.Facts.Allowed.Prefix, "/")
	if open == "" {
		open = "open"
	}
	var list []*kit.Request
	for _, path := range []string{
		"/" + blocked + "/" + verb,
		"/" + blocked + "?n=" + env.Nonce,
		"//" + blocked + "/" + verb,
		"/./" + blocked + "/" + verb,
		"/" + open + "/../" + blocked + "/" + verb,
		"/" + open + "/%2e%2e/" + blocked + "/" + verb,
		"/" + open + "/..%2f" + blocked + "/" + verb,
		"/" + escapeFirst(blocked) + "/" + verb,
		"/" + open + `\..\` + blocked + "/" + verb,
		"/" + strings.ToUpper(blocked) + "/" + verb,
		"/" + strings.ToUpper(blocked[:1]) + blocked[1:] + "/" + verb,
		"/" + blocked + ";v=1/" + verb,
		"/" + blocked + "%3bv=1/" + verb,
		"/" + blocked + "/;/" + verb,
		"/" + blocked + "/?n=" + env.Nonce,
	} {
		r := allowed(env, paths.Heartbeat)
		r.Path = path
		list = append(list, r)
	}
	for _, name := range []string{strings.ToUpper(env.Facts.Allowed.Host), env.Facts.Allowed.Host + "."} {
		r := allowed(env, paths.Heartbeat)
		r.Host, r.Path = name, "/"+blocked+"/"+verb
		list = append(list, r)
	}
	for _, more := range env.Facts.Blocked.Paths {
		more = strings.Trim(more, "/")
		if more == "" || more == blocked {
			continue
		}
		for _, path := range []string{"/" + more + "/" + verb, "/" + open + "/../" + more + "/" + verb, "/" + escapeFirst(more) + "/" + verb} {
			r := allowed(env, paths.Heartbeat)
			r.Path = path
			list = append(list, r)
		}
	}
	return kit.Fetch(ctx, env, list...)
}

// escapeFirst writes the first character of a path as a percent escape.
func escapeFirst(path string) string {
	const hex = "0123456789abcdef"
	return "%" + string(hex[path[0]>>4]) + string(hex[path[0]&15]) + path[1:]
}

func blockedMethod(ctx context.Context, env *probes.Env) manifest.Observation {
	r := allowed(env, paths.Sink)
	if r.Method = env.Facts.Blocked.Method; r.Method == "" {
		return kit.Missing("no blocked method is known")
	}
	r.Header = []string{"Content-Type: application/octet-stream"}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		r.Body = []byte(env.Nonce)
	}
	return kit.Web(ctx, env, r)
}

func blockedScheme(ctx context.Context, env *probes.Env) manifest.Observation {
	r := allowed(env, paths.Heartbeat)
	if r.Scheme, r.Port = env.Facts.Blocked.Scheme, 80; r.Scheme == "" {
		return kit.Missing("no blocked scheme is known")
	}
	return kit.Web(ctx, env, r)
}
