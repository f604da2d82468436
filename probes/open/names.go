package open

import (
	"context"
	"crypto/tls"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/net/dns/dnsmessage"
)

// Public name servers, as everybody knows them.
const (
	publicDNS4 = "8.8.8.8"
	publicDNS6 = "2001:4860:4860::8888"
)

func publicDNS(env *probes.Env) string {
	if _, v6 := kit.WayOf(env.Variant); v6 {
		return publicDNS6
	}
	return publicDNS4
}

// ask queries a server by UDP for the attempt's own name.
func ask(ctx context.Context, t *kit.Try, server string, kind dnsmessage.Type) manifest.Observation {
	query, err := kit.Question(kit.OutsideName(t.Env), kind)
	if err != nil {
		return kit.Sign(err)
	}
	m, err := t.AskUDP(ctx, server, query)
	if err != nil {
		return kit.Sign(err)
	}
	return kit.Answered(m)
}

func dnsUDP(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	return t.Done(ask(ctx, t, kit.JoinHostPort(publicDNS(env), 53), dnsmessage.TypeTXT))
}

func dnsTCP(ctx context.Context, env *probes.Env) manifest.Observation {
	return dnsStream(ctx, env, 53, nil)
}

func dnsTLS(ctx context.Context, env *probes.Env) manifest.Observation {
	return dnsStream(ctx, env, 853, &tls.Config{NextProtos: []string{"dot"}})
}

func dnsStream(ctx context.Context, env *probes.Env, port int, over *tls.Config) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	query, err := kit.Question(kit.OutsideName(env), dnsmessage.TypeTXT)
	if err != nil {
		return kit.Sign(err)
	}
	way, v6 := kit.WayOf(env.Variant)
	c, err := t.Open(ctx, way, v6, publicDNS(env), port)
	if err != nil {
		return t.Fail(err)
	}
	if over != nil {
		if c, err = kit.StartTLS(ctx, c, &kit.Request{Host: "dns.google", Over: over}); err != nil {
			return t.Fail(err)
		}
	}
	m, err := kit.AskStream(c, query)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Answered(m))
}

func dnsHTTPS(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	query, err := kit.Question(kit.OutsideName(env), dnsmessage.TypeTXT)
	if err != nil {
		return kit.Sign(err)
	}
	way, v6 := kit.WayOf(env.Variant)
	r := &kit.Request{Scheme: "https", Host: "dns.google", Method: "POST", Path: "/dns-query",
		Header: []string{"Content-Type: application/dns-message"}, Body: query}
	if way == kit.Direct {
		r.Addr = kit.Outside(env)
	}
	a, err := t.HTTP(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	o := kit.Observe(a)
	var m dnsmessage.Message
	if a.Status == 200 && m.Unpack(a.Body) == nil {
		if in := kit.Answered(&m); in.Sign == manifest.SignReached {
			o = in
		}
	}
	return t.Done(o)
}

// dnsLabel asks for an address first, as any program would, then for text.
func dnsLabel(ctx context.Context, env *probes.Env) manifest.Observation {
	return askResolver(ctx, env, dnsmessage.TypeA, dnsmessage.TypeTXT)
}

// dnsTypes asks for what a filter for addresses may pass on. Types without a
// name in dnsmessage are NULL (RFC 1035) and HTTPS (RFC 9460).
func dnsTypes(ctx context.Context, env *probes.Env) manifest.Observation {
	return askResolver(ctx, env, dnsmessage.TypeTXT, dnsmessage.TypeMX, dnsmessage.TypeSRV, 10, 65, dnsmessage.TypeALL)
}

func askResolver(ctx context.Context, env *probes.Env, kinds ...dnsmessage.Type) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	_, v6 := kit.WayOf(env.Variant)
	server := kit.Of(env.Facts.Resolver, v6)
	if server == "" {
		return kit.Missing("no resolver")
	}
	o := ask(ctx, t, server, kinds[0])
	for _, kind := range kinds[1:] {
		o = kit.Worse(o, ask(ctx, t, server, kind))
	}
	return t.Done(o)
}

// dnsDenied goes to a port that no web policy allows either, so that the request
// is denied for sure and only the order of lookup and denial is in question.
func dnsDenied(ctx context.Context, env *probes.Env) manifest.Observation {
	r := page(env, "http")
	r.Port = 8443
	return kit.Web(ctx, env, r)
}
