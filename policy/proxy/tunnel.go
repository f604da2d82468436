package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/tlsx"
)

// serveTunnel serves what follows an accepted CONNECT or SOCKS request.
func (s *Server) serveTunnel(c *conn, t target) {
	o := &origin{s: s, c: c, ctx: c.ctx, dst: &t}
	defer o.close()
	o.firstBytes(&t)
}

// serveTransparent serves a redirected connection: the sandbox believes that it
// talks to the original destination.
func (s *Server) serveTransparent(c *conn) {
	o := &origin{s: s, c: c, ctx: c.ctx}
	defer o.close()
	o.firstBytes(nil)
}

// firstBytes tells TLS from HTTP and both from anything else, by what the client
// says first. t is the target that a tunnel was opened for, nil on a
// transparent connection.
func (o *origin) firstBytes(t *target) {
	hello, raw, err := readHello(o.c)
	switch {
	case err == nil:
		o.c.unread(raw)
		o.serveTLS(t, hello)
	case errors.Is(err, tlsx.ErrNotTLS):
		o.c.unread(raw)
		o.servePlain(t, raw[0])
	default:
		o.noHello(t, err)
	}
}

// readHello reads a ClientHello under the deadline of a head.
func readHello(c *conn) (tlsx.Hello, []byte, error) {
	c.within(c.srv.limits.headTimeout())
	defer c.relaxed()
	return tlsx.Read(c)
}

// noHello records a connection that did not get as far as a ClientHello.
func (o *origin) noHello(t *target, err error) {
	ev := o.event("tls")
	reason := ReasonBadHello
	switch {
	case o.c.timed.Load():
		reason = ReasonTimeout
	case errors.Is(err, io.EOF) && t == nil:
		reason = ReasonNotTLS // opened and closed without a word
	}
	if t == nil && o.c.orig.IsValid() {
		setTarget(&ev, target{host.FromAddr(o.c.orig.Addr()), o.c.orig.Port()})
	}
	o.s.refused(&ev, reason)
}

// servePlain serves HTTP without TLS, where that is what the port is for.
func (o *origin) servePlain(t *target, first byte) {
	port := o.c.orig.Port()
	if t != nil {
		port = t.port
	}
	if port != 80 || first < 'A' || first > 'Z' {
		o.refuseTCP(t, ReasonNotTLS)
		return
	}
	x := newSession(o, o.c, "http")
	defer x.end()
	x.serve(x.bound)
}

// refuseTCP ends a connection that cannot be answered in a protocol.
func (o *origin) refuseTCP(t *target, reason string) {
	ev := o.event("tcp")
	if t == nil && o.c.orig.IsValid() {
		setTarget(&ev, target{host.FromAddr(o.c.orig.Addr()), o.c.orig.Port()})
	}
	o.s.refused(&ev, reason)
	reset(o.c.Conn)
}

// reset closes with RST, so that the client sees a refusal and not an end.
func reset(c net.Conn) {
	if tc, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = tc.SetLinger(0)
	}
}

// serveTLS binds the SNI to the target and then intercepts or passes on.
func (o *origin) serveTLS(t *target, hello tlsx.Hello) {
	ev := o.event("tls")
	dst, ref := o.agreeSNI(t, hello)
	if dst != nil {
		setTarget(&ev, *dst)
	} else if hello.ServerName != "" {
		ev.Host = quoteHost(hello.ServerName)
	}
	if ref != nil {
		o.alert(&ev, ref)
		return
	}
	o.dst = dst
	o.c.dst.Store(dst) // before the rules are read: see dropDenied
	r := o.s.rules.Load()
	d, ref := o.s.gateName(r, *dst)
	if ref != nil {
		o.alert(&ev, ref)
		return
	}
	ev.Reason, ev.Entry = string(d.Reason), d.Entry
	// An encrypted ClientHello may hide another name. Whoever only pretends to
	// have one goes on with a terminated connection; a real one fails.
	if (d.Intercept || hello.ECH) && !o.s.waves(*dst) {
		o.intercept(r, *dst, &ev)
		return
	}
	o.splice(r, *dst, &ev)
}

// agreeSNI finds the one target that CONNECT or the original destination and
// SNI agree on.
func (o *origin) agreeSNI(t *target, hello tlsx.Hello) (*target, *refusal) {
	port := o.c.orig.Port()
	if t != nil {
		port = t.port
	}
	if hello.ServerName == "" {
		return o.withoutSNI(t)
	}
	h, err := host.Parse(hello.ServerName)
	if err != nil {
		return t, deny(403, ReasonBadAuthority)
	}
	if h.IsAddr() {
		return t, deny(403, ReasonSNIAddress)
	}
	named := target{h, port}
	if t != nil && *t != named && !o.s.breaks.skip(sniAgreement) {
		return t, deny(421, ReasonSNIMismatch)
	}
	if t != nil {
		named = *t
	}
	return &named, nil
}

// withoutSNI: only an address can be reached without a name.
func (o *origin) withoutSNI(t *target) (*target, *refusal) {
	switch {
	case t == nil && o.c.orig.IsValid():
		return &target{host.FromAddr(o.c.orig.Addr()), o.c.orig.Port()}, nil
	case t != nil && (t.host.IsAddr() || o.s.breaks.skip(sniAgreement)):
		return t, nil
	}
	return t, deny(403, ReasonSNIMissing)
}

// alertAccessDenied is a fatal TLS alert, in the record version that every
// client takes before a handshake.
var alertAccessDenied = []byte{21, 3, 1, 0, 2, 2, 49}

// alert refuses a TLS client.
func (o *origin) alert(ev *Event, ref *refusal) {
	ev.Entry, ev.Point = ref.entry, ref.point
	o.s.refused(ev, ref.reason)
	_, _ = o.c.Write(alertAccessDenied)
	x := session{c: o.c, rw: o.c}
	x.lingerClose()
}

// splice passes TLS on untouched: the hello that was read, then everything.
func (o *origin) splice(r *rules, t target, ev *Event) {
	up, addr, ref := o.connect(o.ctx, r, t)
	if ref != nil {
		ev.Dialled = ""
		o.alert(ev, ref)
		return
	}
	defer up.Close()
	ev.Dialled, ev.Route = addr.String(), RouteTunnel
	o.c.spliced.Store(true)
	if now := o.s.rules.Load(); now != r && !o.s.waves(t) && o.c.outdated(now) {
		return // the client comes again, under the rules that are in force
	}
	o.s.allowed(ev)
	if len(o.c.pre) > 0 {
		if _, err := up.Write(o.c.pre); err != nil {
			o.s.closed(*ev, 0, 0)
			return
		}
	}
	hello := int64(len(o.c.pre))
	o.c.pre = nil
	before := o.c.up.Load()
	sent, relayed := o.relay(up)
	if !relayed {
		sent = o.pipe(up)
	}
	o.s.closed(*ev, hello+o.c.up.Load()-before, sent)
}

// pipe copies in both directions until both are done or one fails. When one
// side ends its half, the other half goes on under the idle deadline.
func (o *origin) pipe(up net.Conn) (down int64) {
	stop := context.AfterFunc(o.ctx, func() { _ = up.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		copyHalf(up, o.c)
	})
	down = copyHalf(o.c, up)
	wg.Wait()
	return down
}

// copyHalf copies one direction and then ends it at the far side. After a
// failure the far side is closed, so that the other direction ends, too.
func copyHalf(dst, src net.Conn) (n int64) {
	box := copies.Get().(*[]byte)
	defer copies.Put(box)
	buf := *box
	for {
		k, rerr := src.Read(buf)
		if k > 0 {
			w, werr := dst.Write(buf[:k])
			n += int64(w)
			if werr != nil {
				_ = src.Close()
				_ = dst.Close()
				return n
			}
		}
		if rerr == io.EOF {
			closeHalf(dst)
			return n
		}
		if rerr != nil {
			_ = src.Close()
			_ = dst.Close()
			return n
		}
	}
}

func closeHalf(c net.Conn) {
	if cc, ok := c.(*conn); ok {
		c = cc.Conn
	}
	if cw, ok := c.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
		return
	}
	_ = c.Close()
}

// intercept terminates TLS with a certificate of the run's authority and
// serves the requests inside.
func (o *origin) intercept(r *rules, t target, ev *Event) {
	// The second gate comes before the handshake: a client is not given a
	// certificate for what it cannot reach.
	addrs, ref := o.s.addresses(o.ctx, r, t)
	if ref == nil {
		_, ref = o.s.agreeOriginal(r, o.c, t, addrs)
	}
	if ref != nil && ref.status == 403 {
		o.alert(ev, ref)
		return
	}
	cert, err := o.s.ca.Certificate(t.host.String())
	if err != nil {
		o.alert(ev, &refusal{status: 502, reason: ReasonInternal, err: err})
		return
	}
	cfg := o.s.clientTLS.Clone()
	cfg.Certificates = []tls.Certificate{*cert}
	tc := tls.Server(o.c, cfg)
	o.c.within(o.s.limits.headTimeout())
	if err := tc.HandshakeContext(o.ctx); err != nil {
		reason := handshakeReason(o.c, err)
		if reason == ReasonTLSPinned && o.s.breaks.skip(pinnedRefusal) {
			o.s.waved.Store(t, true)
		}
		o.s.refused(ev, reason)
		return
	}
	o.c.relaxed()
	if tc.ConnectionState().NegotiatedProtocol == "h2" {
		o.serveHTTP2(tc)
		return
	}
	x := newSession(o, tc, "https")
	defer x.end()
	x.serve(x.bound)
}

// waves is false unless a seeded break passes on unread, the next time, a client
// that did not trust the run's authority.
func (s *Server) waves(t target) bool {
	if !s.breaks.skip(pinnedRefusal) {
		return false
	}
	_, ok := s.waved.Load(t)
	return ok
}

// handshakeReason tells a client that does not trust the run's authority from
// one that failed otherwise.
func handshakeReason(c *conn, err error) string {
	if c.timed.Load() {
		return ReasonTimeout
	}
	for _, word := range []string{"unknown certificate", "bad certificate", "certificate unknown", "unknown authority", "certificate required", "unsupported certificate"} {
		if strings.Contains(err.Error(), word) {
			return ReasonTLSPinned
		}
	}
	return ReasonTLSClient
}
