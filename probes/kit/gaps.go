package kit

import (
	"context"
	"net/netip"
	"slices"
	"strconv"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
)

// Gaps sends to what the packet filter's rules in force let through within a range,
// as long as nothing got through, and returns what got furthest: first, or one of
// these.
func Gaps(ctx context.Context, env *probes.Env, within netip.Prefix, first manifest.Observation) manifest.Observation {
	return GapsOf(ctx, env, within, first, "tcp", "udp", "icmp")
}

// GapsOf is Gaps for some protocols alone.
func GapsOf(ctx context.Context, env *probes.Env, within netip.Prefix, first manifest.Observation, protocols ...string) manifest.Observation {
	way, v6 := WayOf(env.Variant)
	o := first
	for _, g := range env.Facts.Gaps {
		if way != Direct || !g.To.IsValid() || g.To.Addr().Is6() != v6 || !within.Overlaps(g.To) || o.Sign == manifest.SignReached || !slices.Contains(protocols, g.Proto) {
			continue
		}
		to := Inside(env, g.To)
		switch g.Proto {
		case "tcp":
			o = Worse(o, Line(ctx, env, to.String(), g.Port, Probe(env)))
		case "udp":
			o = Worse(o, Datagram(ctx, env, JoinHostPort(to.String(), g.Port), Probe(env)))
		default:
			o = Worse(o, Ping(ctx, env, to, []byte(env.Nonce)))
		}
	}
	return o
}

// Opened asks for pages at addresses that the proxy says it lets through within a
// range; see Gaps.
func Opened(ctx context.Context, env *probes.Env, within netip.Prefix, first manifest.Observation) manifest.Observation {
	way, v6 := WayOf(env.Variant)
	o := first
	for _, p := range env.Facts.Opened {
		if p.Addr().Is6() != v6 || !within.Overlaps(p) || o.Sign == manifest.SignReached {
			continue
		}
		for _, scheme := range []string{"http", "https"} {
			if scheme == "https" && (way == Absolute || o.Sign == manifest.SignReached) {
				continue
			}
			r := &Request{Scheme: scheme, Host: Inside(env, p).String(), Path: paths.Build("", paths.Heartbeat, env.Nonce, nil)}
			o = Worse(o, Web(ctx, env, r))
		}
	}
	return o
}

// Inside picks an address of a prefix: the attempt's own in it where it is wide
// enough, else its first. In a prefix that holds more than special addresses it is
// none of them: a kernel keeps 127.0.0.0/8 to itself whatever a filter lets through.
func Inside(env *probes.Env, p netip.Prefix) netip.Addr {
	p = p.Masked()
	if p.Addr().BitLen()-p.Bits() < 8 {
		return p.Addr()
	}
	own := nonce.AddrFor(env.Nonce, p)
	for i, a := 1, own; i < insideTries; i++ {
		if ordinary(a) {
			return a
		}
		a = nonce.AddrFor(env.Nonce+"/"+strconv.Itoa(i), p)
	}
	return own
}

// insideTries bounds the search for an ordinary address in a prefix: of all
// addresses of IPv6 one in eight is one.
const insideTries = 256

// ordinary reports whether an address is one of the internet's.
func ordinary(a netip.Addr) bool {
	if a.Is6() {
		return a.As16()[0]>>5 == 1 // 2000::/3
	}
	first := a.As4()[0]
	return a.IsGlobalUnicast() && !a.IsPrivate() && first != 0 && first < 240
}
