package open

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// pinnedTries is how often a client that pins its peer's certificate tries: a
// proxy that gives up on such a client lets it through the next time.
const pinnedTries = 3

// pinned speaks only to who shows a certificate of the host's own authority, as
// clients do that pin one. Whoever looks into the connection cannot show it.
func pinned(ctx context.Context, env *probes.Env) manifest.Observation {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(env.Facts.Pinned)) {
		return manifest.Observation{Sign: manifest.SignError, Detail: "no certificate to pin"}
	}
	t := kit.Begin(env)
	defer t.End()
	var o manifest.Observation
	for range pinnedTries {
		if o = pinnedOnce(ctx, t, pool); o.Sign == manifest.SignReached {
			break
		}
	}
	return t.Done(o)
}

func pinnedOnce(ctx context.Context, t *kit.Try, pool *x509.CertPool) manifest.Observation {
	way, v6 := kit.WayOf(t.Env.Variant)
	r := allowed(t.Env, paths.Heartbeat)
	host, port := r.Host, r.Port
	if way == kit.Direct && r.Addr.IsValid() {
		host = r.Addr.String()
	}
	c, err := t.Open(ctx, way, v6, host, port)
	if err != nil {
		return kit.Sign(err)
	}
	tc := tls.Client(c, &tls.Config{ServerName: r.Host, RootCAs: pool, NextProtos: []string{"http/1.1"}, CurvePreferences: []tls.CurveID{tls.X25519}})
	if err := tc.HandshakeContext(ctx); err != nil {
		var unknown *tls.CertificateVerificationError
		if errors.As(err, &unknown) {
			drain(c)
			return manifest.Observation{Sign: manifest.SignClosed, Detail: "somebody else's certificate"}
		}
		return kit.Sign(err)
	}
	return kit.Say(tc, r, kit.Direct, t.Env.Nonce)
}

// drain waits for the peer to end the connection: it has then read the alert.
func drain(c net.Conn) {
	buf := make([]byte, 512)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}
