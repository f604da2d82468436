package lat

import (
	"context"
	"net/netip"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/net/dns/dnsmessage"
)

// answers asks the sandbox's resolver for names that lead into ranges that are not
// the internet. An answer with such an address is a wall that is not there: who
// gets it may go there by another way, or have a browser go.
func answers(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	kind, list := dnsmessage.TypeA, append([]string{"169.254.169.254", "127.0.0.1"}, inside4...)
	if v6 {
		kind, list = dnsmessage.TypeAAAA, append([]string{"fd00:ec2::254", "::1"}, inside6...)
	}
	t := kit.Begin(env)
	defer t.End()
	var o manifest.Observation
	for i, address := range list {
		a := netip.MustParseAddr(address)
		query, err := kit.Question(kit.NameFor(env.Nonce, env.Facts.Names.Private, a), kind)
		if err != nil {
			return kit.Sign(err)
		}
		next := told(ctx, t, kit.Of(env.Facts.Resolver, v6), query, a)
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
		if o.Sign == manifest.SignReached {
			break
		}
	}
	return t.Done(o)
}

func told(ctx context.Context, t *kit.Try, server string, query []byte, want netip.Addr) manifest.Observation {
	m, err := t.AskUDP(ctx, server, query)
	if err != nil {
		return kit.Sign(err)
	}
	for _, rr := range m.Answers {
		var got netip.Addr
		switch body := rr.Body.(type) {
		case *dnsmessage.AResource:
			got = netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			got = netip.AddrFrom16(body.AAAA)
		}
		if got == want {
			return manifest.Observation{Sign: manifest.SignReached, Detail: "told " + got.String()}
		}
	}
	return manifest.Observation{Sign: manifest.SignAnswered, Status: int64(m.RCode), Detail: "no address of the range"}
}
