package kit

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/nonce"
)

// Silence is how long an attempt waits for an answer that an intact boundary
// never lets come: long enough for a witness in the next namespace, short enough
// to be waited for once by many attempts side by side.
const Silence = 600 * time.Millisecond

// maxStream is how much of a stream is read.
const maxStream = 64 << 10

// Line opens a TCP connection by the variant's way, sends a payload, and reads
// until there is a proof, the peer closes, or silence. That the connection was
// made proves nothing: a transparent proxy accepts everything.
func Line(ctx context.Context, env *probes.Env, host string, port int, payload []byte) manifest.Observation {
	t := Begin(env)
	defer t.End()
	way, v6 := WayOf(env.Variant)
	c, err := t.Open(ctx, way, v6, host, port)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(Exchange(ctx, c, payload))
}

// knockPort is one that no proxy listens on and no filter redirects.
const knockPort = 4444

// Knock is the heartbeat where no host is allowed: a TCP connection to the
// attempt's own address of the internet. Without a boundary the witness answers;
// with one the wall does.
func Knock(ctx context.Context, env *probes.Env) manifest.Observation {
	if !env.Facts.Outside.V4.IsValid() && !env.Facts.Outside.V6.IsValid() {
		return Missing("there is no address of the internet to knock at")
	}
	t := Begin(env)
	defer t.End()
	v6 := !env.Facts.Outside.V4.IsValid()
	c, err := t.Open(ctx, Direct, v6, OutsideFamily(env, v6).String(), knockPort)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(Exchange(ctx, c, Probe(env)))
}

// Exchange sends a payload over an open connection and observes what comes back.
func Exchange(ctx context.Context, c net.Conn, payload []byte) manifest.Observation {
	_, err := c.Write(payload)
	o := Listen(ctx, c)
	if err != nil && o.Bytes == 0 {
		return Sign(err)
	}
	return o // what a peer said before it closed counts, even when it did not listen
}

// Listen observes what a connection says until a proof, its end, or silence.
func Listen(ctx context.Context, c net.Conn) manifest.Observation {
	var seen []byte
	buf := make([]byte, 4<<10)
	for len(seen) < maxStream {
		n, err := c.Read(buf)
		seen = append(seen, buf[:n]...)
		if nonce.FindProof(seen) != "" {
			break
		}
		if err == nil {
			continue
		}
		if len(seen) > 0 && (errors.Is(err, io.EOF) || isTimeout(err)) {
			break
		}
		return Sign(err)
	}
	o := manifest.Observation{
		Sign:     manifest.SignAnswered,
		Bytes:    int64(len(seen)),
		Proof:    nonce.FindProof(seen),
		Obtained: canary.Find(seen),
	}
	if o.Proof != "" || len(o.Obtained) > 0 {
		o.Sign = manifest.SignReached
	}
	return o
}

// Datagram sends a payload by UDP and waits a moment for an answer. Without one
// the attempt was blind: sent.
func Datagram(ctx context.Context, env *probes.Env, address string, payload []byte) manifest.Observation {
	t := Begin(env)
	defer t.End()
	c, err := t.Dial(ctx, "udp", address)
	if err != nil {
		return t.Fail(err)
	}
	Shorten(c, ctx, Silence)
	o := Exchange(ctx, c, payload)
	if o.Sign == manifest.SignTimeout {
		o = manifest.Observation{Sign: manifest.SignSent}
	}
	return t.Done(o)
}

// Probe is the line that a raw attempt sends: the nonce, alone on a line.
func Probe(env *probes.Env) []byte { return []byte(env.Nonce + "\r\n") }

// Throw sends a datagram and does not wait: Catch does, for all that were
// thrown. A refusal that is known at once is reported at once.
func (t *Try) Throw(ctx context.Context, address string, payload []byte) manifest.Observation {
	c, err := t.Dial(ctx, "udp", address)
	if err != nil {
		return Sign(err)
	}
	if _, err := c.Write(payload); err != nil {
		return Sign(err)
	}
	return manifest.Observation{Sign: manifest.SignSent}
}

// Catch waits a moment for an answer to anything that was thrown.
func (t *Try) Catch(ctx context.Context) manifest.Observation {
	t.mu.Lock()
	conns := append([]net.Conn(nil), t.conns...)
	t.mu.Unlock()
	results := make(chan manifest.Observation, len(conns))
	for _, c := range conns {
		go func() {
			Shorten(c, ctx, Silence)
			results <- Listen(ctx, c)
		}()
	}
	best := manifest.Observation{Sign: manifest.SignSent}
	for range conns {
		if o := <-results; o.Sign != manifest.SignTimeout && (best.Sign == manifest.SignSent || rank(o) > rank(best)) {
			best = o
		}
	}
	return best
}
