package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/dnsx"
)

// refusal is a decision against something, with what the client gets.
type refusal struct {
	status int // HTTP status
	reason string
	entry  string
	point  string // "egress-agent" when the far end refused; else ""
	err    error  // for the failure log of tests; never sent
}

func deny(status int, reason string) *refusal { return &refusal{status: status, reason: reason} }

func denied(d policy.Decision) *refusal {
	return &refusal{status: 403, reason: string(d.Reason), entry: d.Entry}
}

// target is where a connection goes: one host at one port.
type target struct {
	host host.Host
	port uint16
}

func (t target) String() string {
	return net.JoinHostPort(t.host.String(), strconv.Itoa(int(t.port)))
}

// authority is the target as it stands in a Host field of the scheme.
func (t target) authority(scheme string) string {
	if t.port == defaultPort(scheme) {
		return t.host.URLHost()
	}
	return t.host.URLHost() + ":" + strconv.Itoa(int(t.port))
}

func defaultPort(scheme string) uint16 {
	if scheme == "http" {
		return 80
	}
	return 443
}

// parseAuthority reads "host", "host:port", "[v6]" or "[v6]:port". Without a
// port it is def; def 0 makes the port obligatory.
func parseAuthority(s string, def uint16) (target, error) {
	name, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		name, port = s[:i], s[i+1:]
		if port == "" || strings.IndexByte(name, ':') >= 0 && !strings.HasPrefix(name, "[") {
			return target{}, errors.New("authority with a bad port")
		}
	}
	bracketed := strings.HasPrefix(name, "[")
	h, err := host.Parse(name)
	if err != nil {
		return target{}, err
	}
	if bracketed && !strings.HasSuffix(name, "]") || bracketed != (h.IsAddr() && strings.IndexByte(name, ':') >= 0) {
		return target{}, errors.New("brackets that do not hold an IPv6 address")
	}
	if port == "" {
		if def == 0 {
			return target{}, errors.New("authority without a port")
		}
		return target{h, def}, nil
	}
	n, err := parsePort(port)
	return target{h, n}, err
}

func parsePort(s string) (uint16, error) {
	if s == "" || len(s) > 5 {
		return 0, errors.New("bad port")
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, errors.New("bad port")
		}
		n = n*10 + int(s[i]-'0')
	}
	if n == 0 || n > 65535 {
		return 0, errors.New("bad port")
	}
	return uint16(n), nil
}

// earlyLookup does nothing unless a seeded break has names looked up before the
// policy saw them.
func (s *Server) earlyLookup(t target) {
	if s.breaks.skip(policyBeforeLookup) && !t.host.IsAddr() {
		_, _ = s.resolver.Lookup(s.ctx, t.host.Name())
	}
}

// gateName is the first gate.
func (s *Server) gateName(r *rules, t target) (policy.Decision, *refusal) {
	s.earlyLookup(t)
	d := r.ev.Name(t.host, t.port)
	if d.Allowed() || s.breaks.skip(nameGate) || s.breaks.gateOpen(t) {
		return d, nil
	}
	if s.breaks.skip(portGate) && d.Reason == policy.ReasonPort || s.isModelHost(r, t.host) {
		return d, nil
	}
	return d, denied(d)
}

// isModelHost is false unless a seeded break lets the declared model's host be
// asked for anything.
func (s *Server) isModelHost(r *rules, h host.Host) bool {
	return s.breaks.skip(modelHostGate) && r.policy.Model != nil && h == r.policy.Model.Host
}

// addresses looks an allowed name up and passes each address through the
// second gate. Only what it returns may be dialled.
func (s *Server) addresses(ctx context.Context, r *rules, t target) ([]netip.AddrPort, *refusal) {
	if a, ok := s.pinned(t); ok {
		if d := r.ev.Address(t.host, t.port, a.Addr()); !d.Allowed() && !s.breaks.skip(addressGate) {
			return nil, denied(d)
		}
		return []netip.AddrPort{a}, nil
	}
	if t.host.IsAddr() {
		// The first gate decided on the address itself.
		return []netip.AddrPort{netip.AddrPortFrom(t.host.Addr(), t.port)}, nil
	}
	if t.host.Name() == policy.ModelHost {
		return []netip.AddrPort{netip.AddrPortFrom(modelAddr, t.port)}, nil
	}
	if r.isService(t) {
		a, ok := s.services[t.host.Name()]
		if !ok {
			return nil, deny(502, ReasonNoAddress)
		}
		return []netip.AddrPort{netip.AddrPortFrom(a, t.port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.dialTimeout())
	defer cancel()
	ans, err := s.resolver.Lookup(ctx, t.host.Name())
	switch {
	case errors.Is(err, dnsx.ErrNoName), errors.Is(err, dnsx.ErrNoAddress):
		return nil, &refusal{status: 502, reason: ReasonNoAddress, err: err}
	case err != nil:
		return nil, &refusal{status: 502, reason: ReasonResolveFailed, err: err}
	}
	return s.gateAddresses(r, t, ans.Addrs)
}

func (s *Server) gateAddresses(r *rules, t target, addrs []netip.Addr) ([]netip.AddrPort, *refusal) {
	var out []netip.AddrPort
	var first *refusal
	for _, a := range addrs {
		d := r.ev.Address(t.host, t.port, a)
		if d.Allowed() || s.breaks.skip(addressGate) || s.breaks.opened(a) {
			out = append(out, netip.AddrPortFrom(a, t.port))
		} else if first == nil {
			first = denied(d)
		}
	}
	if len(out) == 0 {
		if first == nil {
			first = deny(502, ReasonNoAddress)
		}
		return nil, first
	}
	return out, nil
}

// pinned is the address that the operator gave for a target.
func (s *Server) pinned(t target) (netip.AddrPort, bool) {
	for _, key := range []string{t.String(), t.host.String()} {
		if a, ok := s.pins[key]; ok {
			if a.Port() == 0 {
				a = netip.AddrPortFrom(a.Addr(), t.port)
			}
			return a, true
		}
	}
	return netip.AddrPort{}, false
}

// parsePins reads Upstream.Resolve.
func parsePins(in map[string]string) (map[string]netip.AddrPort, error) {
	out := map[string]netip.AddrPort{}
	for k, v := range in {
		key := k
		if t, err := parseAuthority(k, 1); err != nil {
			return nil, fmt.Errorf("resolve %q: %w", k, err)
		} else if t.port != 1 {
			key = t.String()
		} else {
			key = t.host.String()
		}
		if a, err := netip.ParseAddr(v); err == nil {
			out[key] = netip.AddrPortFrom(a.Unmap(), 0)
			continue
		}
		ap, err := netip.ParseAddrPort(v)
		if err != nil {
			return nil, fmt.Errorf("resolve %q: %q is neither an address nor address:port", k, v)
		}
		out[key] = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return out, nil
}

// maxDials is how many of a name's addresses are tried.
const maxDials = 4

// dial connects to the first of the addresses that answers. Families take
// turns, as one of them may lead nowhere.
func (s *Server) dial(ctx context.Context, t target, addrs []netip.AddrPort) (net.Conn, netip.AddrPort, *refusal) {
	var last error
	for _, a := range interleave(addrs, maxDials) {
		dctx, cancel := context.WithTimeout(ctx, s.limits.dialTimeout()/2)
		if s.egress != nil {
			c, ref := s.egress.dial(dctx, t, a)
			cancel()
			return c, a, ref
		}
		c, err := s.dialer(dctx, "tcp", a.String())
		cancel()
		if err == nil {
			return c, a, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, netip.AddrPort{}, &refusal{status: 502, reason: ReasonDialFailed, err: last}
}

func interleave(addrs []netip.AddrPort, limit int) []netip.AddrPort {
	var four, six, out []netip.AddrPort
	for _, a := range addrs {
		if a.Addr().Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	for len(out) < limit && len(four)+len(six) > 0 {
		if len(four) > 0 {
			out, four = append(out, four[0]), four[1:]
		}
		if len(six) > 0 && len(out) < limit {
			out, six = append(out, six[0]), six[1:]
		}
	}
	return out
}

// agreeOriginal binds a transparent connection: what the sandbox dialled has to
// be one of the addresses that the name has, and then it is what is dialled.
func (s *Server) agreeOriginal(r *rules, c *conn, t target, addrs []netip.AddrPort) ([]netip.AddrPort, *refusal) {
	if c.kind != KindTransparent {
		return addrs, nil
	}
	orig := c.orig.Addr().Unmap()
	if s.selective && orig == localAddr(c) {
		return addrs, nil // the hosts file gave the name this address
	}
	if s.breaks.skip(originalDst) {
		return []netip.AddrPort{c.orig}, nil
	}
	if a, ok := s.pinned(t); ok && (a.Addr() == orig || !t.host.IsAddr() && s.resolver.Recent(t.host.Name(), orig)) {
		return []netip.AddrPort{a}, nil
	}
	for _, a := range addrs {
		if a.Addr() == orig {
			return []netip.AddrPort{a}, nil
		}
	}
	if !t.host.IsAddr() && s.resolver.Recent(t.host.Name(), orig) {
		return s.gateAddresses(r, t, []netip.Addr{orig})
	}
	return nil, deny(403, ReasonOriginalDst)
}

// localAddr is the address at which a connection arrived.
func localAddr(c net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
