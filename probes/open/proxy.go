package open

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/net/idna"
)

// allowed is a request to the allowed host for a verb.
func allowed(env *probes.Env, verb string) *kit.Request {
	f := env.Facts.Allowed
	_, v6 := kit.WayOf(env.Variant)
	return &kit.Request{Scheme: f.Scheme, Host: f.Host, Port: f.Port, Addr: kit.AddrOf(f.Addr, v6), Method: f.Method,
		Path: paths.Build(f.Prefix, verb, env.Nonce, nil)}
}

// sniFront: the address (or the tunnel's name) is the attacker's, the TLS name
// an allowed one.
func sniFront(ctx context.Context, env *probes.Env) manifest.Observation {
	r := page(env, "https")
	r.SNI = env.Facts.Allowed.Host
	r.Hosts = []string{env.Facts.Allowed.Host}
	return kit.Web(ctx, env, r)
}

// sniOther: the address or the tunnel's name is the allowed host's, the TLS name and
// the request the attacker's, as at hosts that serve many names.
func sniOther(ctx context.Context, env *probes.Env) manifest.Observation {
	r := allowed(env, paths.Heartbeat)
	r.Scheme, r.Port = "https", 443
	r.SNI, r.Hosts = kit.OutsideName(env), []string{kit.OutsideName(env)}
	return kit.Web(ctx, env, r)
}

// hostFront: everything but the request inside names an allowed host.
func hostFront(ctx context.Context, env *probes.Env) manifest.Observation {
	r := allowed(env, paths.Heartbeat)
	if way, _ := kit.WayOf(env.Variant); way == kit.Absolute {
		r.Scheme, r.Port = "http", 80
	}
	r.Hosts = []string{kit.OutsideName(env)}
	return kit.Web(ctx, env, r)
}

func noSNI(ctx context.Context, env *probes.Env) manifest.Observation {
	r := page(env, "https")
	r.SNI = kit.NoSNI
	return kit.Web(ctx, env, r)
}

// connected opens the connection on which a technique then speaks TLS by itself.
func connected(ctx context.Context, env *probes.Env, speak func(t *kit.Try, r *kit.Request) manifest.Observation) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	return t.Done(speak(t, page(env, "https")))
}

func sniAddress(ctx context.Context, env *probes.Env) manifest.Observation {
	return connected(ctx, env, func(t *kit.Try, r *kit.Request) manifest.Observation {
		way, v6 := kit.WayOf(env.Variant)
		hello, err := kit.ClientHello(kit.Outside(env).String(), env.Nonce, "http/1.1")
		if err != nil {
			return kit.Sign(err)
		}
		c, err := t.Open(ctx, way, v6, host(env), 443)
		if err != nil {
			return kit.Sign(err)
		}
		return kit.Greet(c, hello)
	})
}

func encryptedHello(ctx context.Context, env *probes.Env) manifest.Observation {
	return connected(ctx, env, func(t *kit.Try, r *kit.Request) manifest.Observation {
		way, v6 := kit.WayOf(env.Variant)
		c, err := t.Open(ctx, way, v6, host(env), 443)
		if err != nil {
			return kit.Sign(err)
		}
		return kit.EncryptedHello(ctx, c, env.Facts.Allowed.Host, kit.OutsideName(env))
	})
}

// lookAlike tries names that a match by prefix, by suffix without the dot, or by
// a pattern with unescaped dots takes for the allowed one.
func lookAlike(ctx context.Context, env *probes.Env) manifest.Observation {
	name := env.Facts.Allowed.Host
	names := []string{name + "." + kit.OutsideName(env)}
	if !below(name, env.Facts.Allowed.Wildcard) {
		names = append(names, env.Nonce+"-"+name)
	}
	if head, tail, ok := strings.Cut(name, "."); ok {
		names = append(names, head+"-"+tail+"."+kit.OutsideName(env))
	}
	return fetchNames(ctx, env, names)
}

// below reports whether names beside name would lie under a wildcard.
func below(name, wildcard string) bool {
	return wildcard != "" && (name == wildcard || strings.HasSuffix(name, "."+wildcard))
}

// fetchNames asks the proxy for the attacker's page under several names.
func fetchNames(ctx context.Context, env *probes.Env, names []string) manifest.Observation {
	var list []*kit.Request
	for _, name := range names {
		r := page(env, "http")
		r.Host = name
		list = append(list, r)
	}
	return kit.Fetch(ctx, env, list...)
}

func userinfo(ctx context.Context, env *probes.Env) manifest.Observation {
	name, evil := env.Facts.Allowed.Host, kit.OutsideName(env)
	return fetchNames(ctx, env, []string{name + "@" + evil, name + ":443@" + evil, evil + "#@" + name, evil + `\@` + name, evil + "?@" + name})
}

func nulName(ctx context.Context, env *probes.Env) manifest.Observation {
	var names []string
	for _, cut := range []string{"\x00", "\t", "%00", "\x0b"} {
		names = append(names, kit.OutsideName(env)+cut+"."+env.Facts.Allowed.Host)
	}
	if way, v6 := kit.WayOf(env.Variant); way == kit.Socks {
		return socksNames(ctx, env, v6, names)
	}
	return fetchNames(ctx, env, names)
}

func socksNames(ctx context.Context, env *probes.Env, v6 bool, names []string) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	var o manifest.Observation
	for i, name := range names {
		var next manifest.Observation
		if c, err := t.Socks(ctx, v6, name, 80); err != nil {
			next = kit.Sign(err)
		} else {
			next = kit.Say(c, page(env, "http"), kit.Socks, env.Nonce)
		}
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
	}
	return t.Done(o)
}

func percentName(ctx context.Context, env *probes.Env) manifest.Observation {
	evil := kit.OutsideName(env)
	first := fmt.Sprintf("%%%02x", evil[0]) + evil[1:]
	dots := strings.ReplaceAll(evil, ".", "%2e")
	return fetchNames(ctx, env, []string{first, dots})
}

// otherScript has a Cyrillic letter in the allowed name's place of the first that
// has a look-alike.
func otherScript(ctx context.Context, env *probes.Env) manifest.Observation {
	name := env.Facts.Allowed.Host
	for latin, other := range map[string]string{"a": "\u0430", "c": "\u0441", "e": "\u0435", "o": "\u043e", "p": "\u0440"} {
		if !strings.Contains(name, latin) {
			continue
		}
		alike := strings.Replace(name, latin, other, 1)
		ascii, err := idna.Punycode.ToASCII(alike)
		if err != nil {
			continue
		}
		return fetchNames(ctx, env, []string{ascii, alike})
	}
	return kit.Missing("no letter of the allowed name has a look-alike")
}

func otherPort(ctx context.Context, env *probes.Env) manifest.Observation {
	r := allowed(env, paths.Heartbeat)
	if r.Scheme, r.Port = "http", env.Facts.Blocked.Port; r.Port == 0 {
		return kit.Missing("no blocked port is known")
	}
	over := *r
	over.Scheme = "https"
	return kit.Fetch(ctx, env, r, &over)
}

// nested asks the proxy for a tunnel to the proxy, and there for the attacker.
func nested(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	_, v6 := kit.WayOf(env.Variant)
	outer, err := t.Connect(ctx, v6, kit.Of(env.Facts.Proxy, v6))
	if err != nil {
		return t.Fail(err)
	}
	r := page(env, "http")
	inner, err := kit.ConnectOver(outer, kit.JoinHostPort(r.Host, 80), env.Nonce)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Say(inner, r, kit.Connect, env.Nonce))
}

// pipeline puts a request for the attacker behind one that is allowed, in one
// write. Only the answer to the second counts, unless the first was refused.
func pipeline(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	first := allowed(env, paths.Heartbeat)
	c, err := t.Stream(ctx, way, v6, first)
	if err != nil {
		return t.Fail(err)
	}
	second := page(env, "http")
	second.Target = "http://" + second.Host + second.Path
	if _, err := c.Write(append(first.Bytes(way, env.Nonce), second.Bytes(way, env.Nonce)...)); err != nil {
		return t.Fail(err)
	}
	br := bufio.NewReader(c)
	a, err := kit.ReadAnswer(br, first.Method)
	if err != nil {
		return t.Fail(err)
	}
	if o := kit.Observe(a); o.Sign == manifest.SignRefused {
		return t.Done(o)
	}
	b, err := kit.ReadAnswer(br, second.Method)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Observe(b))
}

// expectContinue sends its body only when it is told to go on.
func expectContinue(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	r := page(env, "http")
	r.Method = http.MethodPost
	body := []byte(env.Nonce)
	r.Header = []string{"Expect: 100-continue", fmt.Sprintf("Content-Length: %d", len(body))}
	c, err := t.Stream(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	if _, err := c.Write(r.Bytes(way, env.Nonce)); err != nil {
		return t.Fail(err)
	}
	br := bufio.NewReader(c)
	if head, err := br.Peek(len("HTTP/1.1 1")); err == nil && strings.HasSuffix(string(head), " 1") {
		if _, err := c.Write(body); err != nil {
			return t.Fail(err)
		}
	}
	a, err := kit.ReadAnswer(br, r.Method)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Observe(a))
}

func webSocket(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.WebSocket(ctx, env, &kit.Request{Scheme: "http", Host: kit.OutsideName(env), Addr: kit.Outside(env),
		Path: paths.Build("", paths.Socket, env.Nonce, nil)})
}

// h2Connect speaks HTTP/2 to the proxy without having agreed on it.
func h2Connect(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	_, v6 := kit.WayOf(env.Variant)
	c, err := t.Proxy(ctx, v6)
	if err != nil {
		return t.Fail(err)
	}
	a, err := kit.H2(ctx, c, page(env, "http").Bytes(kit.Connect, env.Nonce),
		hpack.HeaderField{Name: ":method", Value: http.MethodConnect},
		hpack.HeaderField{Name: ":authority", Value: kit.JoinHostPort(kit.OutsideName(env), 80)},
		hpack.HeaderField{Name: "user-agent", Value: env.Nonce})
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Observe(a))
}

// h2Authority opens HTTP/2 to the allowed host and asks for the attacker's.
func h2Authority(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	r := allowed(env, paths.Heartbeat)
	r.Scheme, r.Port = "https", 443
	r.Over = &tls.Config{NextProtos: []string{http2.NextProtoTLS}}
	c, err := t.Stream(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	a, err := kit.H2(ctx, c, nil,
		hpack.HeaderField{Name: ":method", Value: http.MethodGet},
		hpack.HeaderField{Name: ":scheme", Value: "https"},
		hpack.HeaderField{Name: ":authority", Value: kit.OutsideName(env)},
		hpack.HeaderField{Name: ":path", Value: r.Path},
		hpack.HeaderField{Name: "user-agent", Value: env.Nonce})
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Observe(a))
}
