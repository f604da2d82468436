package kit

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
)

// Web makes one request by the variant's way and observes the answer.
func Web(ctx context.Context, env *probes.Env, r *Request) manifest.Observation {
	t := Begin(env)
	defer t.End()
	way, v6 := WayOf(env.Variant)
	a, err := t.HTTP(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(Observe(a))
}

// Say sends a request over an open connection and observes the answer.
func Say(c net.Conn, r *Request, way Way, agent string) manifest.Observation {
	if _, err := c.Write(r.Bytes(way, agent)); err != nil {
		return Sign(err)
	}
	return Hear(c, r.Method)
}

// Hear observes the answer to a request that has been sent.
func Hear(c net.Conn, method string) manifest.Observation {
	a, err := ReadAnswer(bufio.NewReader(c), method)
	if err != nil {
		return Sign(err)
	}
	return Observe(a)
}

// Fetch makes several requests, each on a connection of its own, until one is
// answered with a proof or a canary. The observation is the most telling one:
// what got furthest.
func Fetch(ctx context.Context, env *probes.Env, list ...*Request) manifest.Observation {
	t := Begin(env)
	defer t.End()
	way, v6 := WayOf(env.Variant)
	var best manifest.Observation
	for i, r := range list {
		var o manifest.Observation
		if a, err := t.HTTP(ctx, way, v6, r); err != nil {
			o = Sign(err)
		} else {
			o = Observe(a)
		}
		if i == 0 || rank(o) > rank(best) {
			best = o
		}
		if o.Sign == manifest.SignReached {
			break
		}
	}
	return t.Done(best)
}

// rank orders observations by how little of a refusal they are, so that among
// several tries the one that was not refused is the one reported.
func rank(o manifest.Observation) int {
	switch o.Sign {
	case manifest.SignReached:
		return 7
	case manifest.SignAnswered:
		return 6
	case manifest.SignClosed:
		return 5
	case manifest.SignTimeout:
		return 4
	case manifest.SignError:
		return 3
	case manifest.SignSent:
		return 2
	case manifest.SignRefused:
		return 1
	}
	return 0
}

// Worse returns the one of two observations that is less of a refusal, with what
// both obtained.
func Worse(a, b manifest.Observation) manifest.Observation {
	obtained := append(append([]string(nil), a.Obtained...), b.Obtained...)
	local := append(append([]string(nil), a.Local...), b.Local...)
	out := a
	if rank(b) > rank(a) {
		out = b
	}
	out.Obtained, out.Local = obtained, local
	return out
}

// AddrOf parses an address of the facts; the zero Addr when it is empty.
func AddrOf(p probes.Pair, v6 bool) netip.Addr {
	a, err := netip.ParseAddr(Of(p, v6))
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// WebSocket asks for an upgrade (RFC 6455) and reads what the peer then sends.
func WebSocket(ctx context.Context, env *probes.Env, r *Request) manifest.Observation {
	t := Begin(env)
	defer t.End()
	way, v6 := WayOf(env.Variant)
	r.Header = append(r.Header, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
		"Sec-WebSocket-Key: d2FsbHByb29mLXByb2JlLSE=")
	c, err := t.Stream(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	if _, err := c.Write(r.Bytes(way, env.Nonce)); err != nil {
		return t.Fail(err)
	}
	br := bufio.NewReader(c)
	a, err := ReadAnswer(br, r.Method)
	if err != nil {
		return t.Fail(err)
	}
	o := Observe(a)
	if a.Status == http.StatusSwitchingProtocols && o.Sign != manifest.SignReached {
		o = Listen(ctx, &bufferedConn{Conn: c, r: br})
	}
	return t.Done(o)
}

// Follow makes a request that is to be answered with a redirect, and then, by
// the same way, the request that a client following it would make. The
// observation is that of the second; when there was no redirect to follow, that
// of the first, in which the allowed host's own proof counts for nothing.
func Follow(ctx context.Context, env *probes.Env, first, second *Request) manifest.Observation {
	t := Begin(env)
	defer t.End()
	way, v6 := WayOf(env.Variant)
	a, err := t.HTTP(ctx, way, v6, first)
	if err != nil {
		return t.Fail(err)
	}
	if a.Status/100 != 3 {
		o := Observe(a)
		if len(o.Obtained) == 0 && o.Sign == manifest.SignReached {
			o.Sign, o.Proof, o.Detail = manifest.SignAnswered, "", "no redirect to follow"
		}
		return t.Done(o)
	}
	b, err := t.HTTP(ctx, way, v6, second)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(Observe(b))
}

// Count words a number of things.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
