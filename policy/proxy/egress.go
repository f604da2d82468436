package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/dnsx"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// Local egress: a run's traffic leaves from an egress agent on the operator's
// own machine. The proxy reaches it by TLS with certificates on both sides, one
// connection for each connection outwards and one for each look-up:
//
//	GET /v1/lookup?name=NAME          → 200 {"addrs":["…"],"ttl":seconds}
//	CONNECT host:port                 → 200, then the bytes
//	X-Wallproof-Address: ip             the address that the proxy classified
//
// The agent enforces the same policy a second time: name, address, and SNI. Its
// refusals carry X-Wallproof-Reason, and the proxy records them with the point
// "egress-agent".

// Egress is how a proxy reaches its egress agent.
type Egress struct {
	Address     string `json:"address"`     // "host:port"
	ServerCAPEM string `json:"serverCAPEM"` // who signs the agent's certificate
	CertPEM     string `json:"certPEM"`     // the proxy's own
	KeyPEM      string `json:"keyPEM"`      //
}

// KindAgent is the agent's listener: its connections are TLS with client
// certificates already.
const KindAgent Kind = "egress-agent"

// PointAgent marks events that the agent, not the proxy, refused.
const PointAgent = "egress-agent"

// addressField carries the address that the proxy classified.
const addressField = "X-Wallproof-Address"

// egress is the proxy's side.
type egress struct {
	s    *Server
	addr string
	tls  *tls.Config
}

func newEgress(s *Server, e *Egress) (*egress, error) {
	h, _, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, fmt.Errorf("egress agent %q is not host:port: %w", e.Address, err)
	}
	cfg, err := MutualTLS(e.ServerCAPEM, e.CertPEM, e.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("egress agent: %w", err)
	}
	cfg.ServerName = h
	return &egress{s, e.Address, cfg}, nil
}

// checkEgress makes sure that a policy's traffic leaves where the policy says.
func checkEgress(cfg *Config, p *policy.Policy) error {
	switch {
	case cfg.Agent:
		return nil
	case p.Egress == nil && cfg.Egress == nil:
		return nil
	case p.Egress == nil:
		return nil // the operator's choice, which the policy does not speak of
	case cfg.Egress == nil:
		return fmt.Errorf("the policy sends traffic through the egress agent %s, and this proxy was given no way there", p.Egress.Address)
	case cfg.Egress.Address != p.Egress.Address:
		return fmt.Errorf("the policy sends traffic through the egress agent %s, and this proxy was wired to %s", p.Egress.Address, cfg.Egress.Address)
	}
	return nil
}

// MutualTLS is the configuration of both ends of an egress tunnel: each trusts
// one authority for the other.
func MutualTLS(caPEM, certPEM, keyPEM string) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(caPEM)) {
		return nil, errors.New("no authority in PEM")
	}
	cert, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// open connects to the agent.
func (e *egress) open(ctx context.Context) (*tls.Conn, error) {
	raw, err := e.s.dialer(ctx, "tcp", e.addr)
	if err != nil {
		return nil, err
	}
	tc := tls.Client(raw, e.tls)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return tc, nil
}

// dial has the agent dial an address for a target.
func (e *egress) dial(ctx context.Context, t target, a netip.AddrPort) (net.Conn, *refusal) {
	tc, err := e.open(ctx)
	if err != nil {
		return nil, &refusal{status: 502, reason: ReasonDialFailed, point: PointAgent, err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = tc.Close() })
	defer stop()
	fmt.Fprintf(tc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n\r\n", t, t, addressField, a.Addr())
	br := bufio.NewReader(tc)
	resp, err := httpx.NewResponseReader(br, e.s.headLimits).Read("CONNECT")
	switch {
	case err != nil:
		_ = tc.Close()
		return nil, &refusal{status: 502, reason: ReasonDialFailed, point: PointAgent, err: err}
	case resp.Status != 200:
		_ = tc.Close()
		reason := resp.Header.Get(reasonField)
		if !knownReason(reason) {
			reason = ReasonDialFailed
		}
		return nil, &refusal{status: resp.Status, reason: reason, point: PointAgent}
	}
	return &bufferedConn{tc, br}, nil
}

// knownReason keeps what an agent says within the shape of a code.
func knownReason(s string) bool {
	if s == "" || len(s) > 40 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// maxLookup bounds the agent's answer to a look-up.
const maxLookup = 64 << 10

type lookupReply struct {
	Addrs []netip.Addr `json:"addrs"`
	TTL   int64        `json:"ttl"`
}

// lookup asks the agent, in whose network names have their meaning.
func (e *egress) lookup(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	tc, err := e.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer tc.Close()
	stop := context.AfterFunc(ctx, func() { _ = tc.Close() })
	defer stop()
	fmt.Fprintf(tc, "GET /v1/lookup?name=%s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n", url.QueryEscape(name))
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(tc, maxLookup)), nil)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, 0, dnsx.ErrNoAddress
	}
	var r lookupReply
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		return nil, 0, err
	}
	if len(r.Addrs) == 0 {
		return nil, 0, dnsx.ErrNoAddress
	}
	for i := range r.Addrs {
		r.Addrs[i] = r.Addrs[i].WithZone("").Unmap()
	}
	return r.Addrs, time.Duration(min(max(r.TTL, 1), 300)) * time.Second, nil
}

// serveAgent is the agent's side of one connection.
func (s *Server) serveAgent(c *conn) {
	o := &origin{s: s, c: c, ctx: c.ctx}
	x := newSession(o, c, "tls")
	var tunnel *target
	var addr netip.AddrPort
	x.serve(func(req *httpx.Request) bool {
		switch {
		case req.Method == "GET":
			return x.agentLookup(req)
		case req.Method == "CONNECT":
			tunnel, addr = x.agentConnect(req)
		default:
			ev := o.event("tls")
			x.refuse(&ev, deny(405, ReasonMethodRefused), "")
		}
		return false
	})
	x.end()
	if tunnel != nil {
		o.dst = tunnel
		o.agentTunnel(*tunnel, addr)
	}
}

// agentLookup looks a name up that the policy allows, and tells only addresses
// that it allows.
func (x *session) agentLookup(req *httpx.Request) bool {
	ev := x.o.event("dns")
	u, err := url.ParseRequestURI(req.Target)
	if err != nil || u.Path != "/v1/lookup" {
		return x.refuse(&ev, deny(404, ReasonNotProxyRequest), "")
	}
	t, err := parseAuthority(u.Query().Get("name"), 1)
	if err != nil || t.host.IsAddr() {
		return x.refuse(&ev, deny(400, ReasonBadAuthority), u.Query().Get("name"))
	}
	r := x.o.s.rules.Load()
	ev.Host = t.host.Name()
	if d := x.o.agentName(r, target{t.host, 0}); !d.Allowed() {
		return x.refuse(&ev, denied(d), "")
	}
	ans, err := x.o.s.lookup(x.c.ctx, t.host, "")
	if err != nil {
		return x.refuse(&ev, &refusal{status: 502, reason: ReasonResolveFailed, err: err}, "")
	}
	reply := lookupReply{TTL: int64(ans.TTL / time.Second)}
	for _, a := range ans.Addrs {
		if x.o.agentAddress(r, target{t.host, 0}, a).Allowed() {
			reply.Addrs = append(reply.Addrs, a)
		}
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return false
	}
	httpx.WriteStatusLine(x.bw, 200)
	httpx.WriteLength(x.bw, int64(len(body)))
	x.bw.WriteString("\r\n")
	_, _ = x.bw.Write(body)
	return x.bw.Flush() == nil && req.KeepAlive
}

// agentName and agentAddress are both gates, for the model's own host, too.
func (o *origin) agentName(r *rules, t target) policy.Decision {
	if m := r.policy.Model; m != nil && t.host == m.Host && (t.port == m.Port || t.port == 0) {
		return policy.Decision{Verdict: policy.Allow, Reason: policy.ReasonModel, Entry: m.URL}
	}
	return r.ev.Name(t.host, t.port)
}

func (o *origin) agentAddress(r *rules, t target, a netip.Addr) policy.Decision {
	if m := r.policy.Model; m != nil && t.host == m.Host && (t.port == m.Port || t.port == 0) {
		return r.ev.ModelAddress(a)
	}
	if t.host == host.FromAddr(a) {
		return r.ev.Name(t.host, t.port)
	}
	return r.ev.Address(t.host, t.port, a)
}

// agentConnect decides on a connection: the address that the proxy classified
// has to be one that the name has here, and that the policy allows here.
func (x *session) agentConnect(req *httpx.Request) (*target, netip.AddrPort) {
	ev := x.o.event("tls")
	none := netip.AddrPort{}
	t, err := parseAuthority(req.Target, 0)
	if err != nil {
		x.refuse(&ev, deny(400, ReasonBadAuthority), req.Target)
		return nil, none
	}
	setTarget(&ev, t)
	a, err := netip.ParseAddr(req.Header.Get(addressField))
	if err != nil || req.Header.Count(addressField) != 1 {
		x.refuse(&ev, deny(400, ReasonBadAuthority), "")
		return nil, none
	}
	a = a.WithZone("").Unmap()
	r := x.o.s.rules.Load()
	ref := x.o.agentGates(r, t, a)
	if ref != nil {
		x.refuse(&ev, ref, "")
		return nil, none
	}
	x.bw.WriteString("HTTP/1.1 200 Connection established\r\n\r\n")
	if x.bw.Flush() != nil {
		return nil, none
	}
	return &t, netip.AddrPortFrom(a, t.port)
}

func (o *origin) agentGates(r *rules, t target, a netip.Addr) *refusal {
	if d := o.agentName(r, t); !d.Allowed() {
		return denied(d)
	}
	if d := o.agentAddress(r, t, a); !d.Allowed() {
		return denied(d)
	}
	if t.host.IsAddr() {
		if t.host.Addr() != a {
			return deny(403, ReasonOriginalDst)
		}
		return nil
	}
	if p, ok := o.s.pinned(t); ok && p.Addr() == a {
		return nil
	}
	ctx, cancel := context.WithTimeout(o.ctx, o.s.limits.dialTimeout())
	defer cancel()
	ans, err := o.s.resolver.Lookup(ctx, t.host.Name())
	if err != nil && !o.s.resolver.Recent(t.host.Name(), a) {
		return &refusal{status: 502, reason: ReasonResolveFailed, err: err}
	}
	for _, b := range ans.Addrs {
		if a == b {
			return nil
		}
	}
	if o.s.resolver.Recent(t.host.Name(), a) {
		return nil
	}
	return deny(403, ReasonOriginalDst)
}

// agentTunnel passes the bytes on. TLS has to name the target.
func (o *origin) agentTunnel(t target, addr netip.AddrPort) {
	ev := o.event("tcp")
	setTarget(&ev, t)
	if t.port != 80 {
		hello, raw, err := readHello(o.c)
		o.c.unread(raw)
		ref := deny(403, ReasonNotTLS)
		if err == nil {
			_, ref = o.agreeSNI(&t, hello)
		}
		if ref != nil {
			o.alert(&ev, ref)
			return
		}
	}
	up, _, ref := o.s.dial(o.ctx, t, []netip.AddrPort{addr})
	if ref != nil {
		o.alert(&ev, ref)
		return
	}
	defer up.Close()
	ev.Dialled, ev.Route = addr.String(), RouteTunnel
	o.s.allowed(&ev)
	before := o.c.up.Load()
	down := o.pipe(up)
	o.s.closed(ev, o.c.up.Load()-before, down)
}
