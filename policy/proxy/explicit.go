package proxy

import (
	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// serveExplicit serves a client that knows that it talks to a proxy.
func (s *Server) serveExplicit(c *conn) {
	o := &origin{s: s, c: c, ctx: c.ctx}
	defer o.close()
	x := newSession(o, c, "http")
	var tunnel *target
	x.serve(func(req *httpx.Request) bool {
		if req.Method != "CONNECT" {
			return x.proxied(req)
		}
		tunnel = x.connect(req)
		return false
	})
	x.end()
	if tunnel != nil {
		s.serveTunnel(c, *tunnel)
	}
}

// connect decides on a CONNECT. It returns the target when the tunnel may be
// opened; what goes through it is looked at before anything is dialled.
func (x *session) connect(req *httpx.Request) *target {
	ev := x.o.event("tls")
	ev.Method = "CONNECT"
	t, err := x.o.s.breaks.readAuthority(req.Target, 0)
	if err != nil {
		x.refuse(&ev, deny(400, ReasonBadAuthority), req.Target)
		return nil
	}
	setTarget(&ev, t)
	if x.br.Buffered() > 0 {
		x.refuse(&ev, deny(400, ReasonEarlyData), "")
		return nil
	}
	if ref := x.connectHost(req, t); ref != nil {
		x.refuse(&ev, ref, "")
		return nil
	}
	r := x.o.s.rules.Load()
	if _, ref := x.o.s.gateName(r, t); ref != nil && !x.o.s.breaks.listenerOpen(x.c) {
		x.refuse(&ev, ref, "")
		return nil
	}
	// The second gate answers now, too, where the client can still be told why.
	if _, ref := x.o.s.addresses(x.c.ctx, r, t); ref != nil {
		x.refuse(&ev, ref, "")
		return nil
	}
	x.bw.WriteString("HTTP/1.1 200 Connection established\r\n\r\n")
	if x.bw.Flush() != nil {
		return nil
	}
	return &t
}

// connectHost compares the Host of a CONNECT with its target. Clients send
// either the target itself or its host alone.
func (x *session) connectHost(req *httpx.Request, t target) *refusal {
	if !req.HasHost || x.o.s.breaks.skip(hostAgreement) {
		return nil
	}
	claimed, err := x.o.s.breaks.readAuthority(req.Host, t.port)
	if err != nil {
		return deny(400, ReasonBadAuthority)
	}
	if claimed != t {
		return deny(421, ReasonHostMismatch)
	}
	return nil
}
