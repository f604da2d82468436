package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/dnsx"
)

// maxQueries is how many queries over UDP are worked on at once.
const maxQueries = 512

// ServePacket answers name queries on pc until it is closed.
func (s *Server) ServePacket(pc net.PacketConn) error {
	if !s.listen(pc) {
		return nil
	}
	defer s.unlisten(pc)
	slots := make(chan struct{}, maxQueries)
	buf := make([]byte, dnsx.MaxMessage+1)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			if s.isStopping() || errors.Is(err, net.ErrClosed) {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) || errors.Is(err, io.EOF) {
				continue // an ICMP error for an earlier answer
			}
			return err
		}
		ap, err := netip.ParseAddrPort(from.String())
		if err != nil || !s.isClientAddr(ap.Addr()) {
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			continue // overload: the client asks again
		}
		msg := append([]byte(nil), buf[:n]...)
		go func() {
			defer func() { <-slots }()
			defer func() {
				if p := recover(); p != nil {
					s.failure(ReasonInternal, "query")
					s.onPanic(p)
				}
			}()
			if reply := s.answer(s.ctx, msg, from.String(), KindDNSUDP); reply != nil {
				_, _ = pc.WriteTo(reply, from)
			}
		}()
	}
}

// serveDNSConn answers queries over TCP, one after another.
func (s *Server) serveDNSConn(c *conn) {
	for {
		c.within(s.limits.headTimeout())
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint16(size[:])
		if n > dnsx.MaxMessage {
			return
		}
		msg := make([]byte, n)
		if _, err := io.ReadFull(c, msg); err != nil {
			return
		}
		c.relaxed()
		reply := s.answer(c.ctx, msg, c.client, KindDNSTCP)
		if reply == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// answer answers one query. A name that the policy denies is refused without
// any look-up; of an allowed one only those addresses are told that may be
// dialled.
func (s *Server) answer(ctx context.Context, msg []byte, client string, kind Kind) []byte {
	o := &origin{s: s, c: &conn{kind: kind, client: client}}
	ev := o.event("dns")
	q, reply := dnsx.Parse(msg)
	if q == nil {
		if reply != nil {
			s.refused(&ev, ReasonDNSMalformed)
		}
		return reply
	}
	ev.Method = dns.TypeToString[q.Type]
	h, err := host.Parse(q.Name)
	if err != nil || h.IsAddr() {
		ev.Host = quoteHost(q.Name)
		s.refused(&ev, ReasonBadAuthority)
		return q.Refuse()
	}
	ev.Host = h.Name()
	r := s.rules.Load()
	d := r.ev.Name(h, 0)
	if s.breaks.skip(dnsTypes) && q.Type != dns.TypeA && q.Type != dns.TypeAAAA {
		_, _ = s.resolver.Exchange(ctx, h.Name(), q.Type)
	}
	if !d.Allowed() && !s.breaks.skip(dnsNames) && !s.breaks.skip(nameGate) && !s.isModelHost(r, h) {
		ev.Entry = d.Entry
		s.refused(&ev, string(d.Reason))
		return q.Refuse()
	}
	ev.Reason, ev.Entry = string(d.Reason), d.Entry
	switch q.Type {
	case dns.TypeA, dns.TypeAAAA:
		return s.answerAddresses(ctx, r, h, q, &ev)
	case dns.TypeHTTPS:
		return s.answerHTTPS(ctx, h, q, &ev)
	case dns.TypeCNAME:
		s.allowed(&ev) // every answer is under the name itself: there is none
		return q.Answer(nil, 0, kind == KindDNSUDP)
	}
	s.refused(&ev, ReasonDNSType)
	return q.Refuse()
}

func (s *Server) answerAddresses(ctx context.Context, r *rules, h host.Host, q *dnsx.Query, ev *Event) []byte {
	udp := ev.Listener == KindDNSUDP
	ctx, cancel := context.WithTimeout(ctx, s.limits.dialTimeout())
	defer cancel()
	ans, err := s.lookup(ctx, h, ev.Reason)
	switch {
	case errors.Is(err, dnsx.ErrNoName):
		s.allowed(ev)
		return q.NoName()
	case errors.Is(err, dnsx.ErrNoAddress):
		s.allowed(ev)
		return q.Answer(nil, 0, udp)
	case err != nil:
		s.refused(ev, ReasonResolveFailed)
		return q.Fail()
	}
	var told []netip.Addr
	var first policy.Decision
	for _, a := range ans.Addrs {
		d := policy.Decision{Verdict: policy.Allow}
		if !ans.known {
			d = r.ev.Address(h, 0, a)
		}
		if d.Allowed() || s.breaks.skip(dnsAddresses) {
			told = append(told, a)
		} else if first.Reason == "" {
			first = d
		}
	}
	if len(told) == 0 && len(ans.Addrs) > 0 {
		ev.Entry = first.Entry
		s.refused(ev, string(first.Reason))
		return q.Refuse()
	}
	s.allowed(ev)
	return q.Answer(told, ans.TTL, udp)
}

// answer of a look-up; known says that the address was not looked up but given
// by the operator, so that the second gate has nothing to say.
type lookupAnswer struct {
	dnsx.Answer
	known bool
}

func (s *Server) lookup(ctx context.Context, h host.Host, reason string) (lookupAnswer, error) {
	if h.Name() == policy.ModelHost && reason == string(policy.ReasonModel) {
		return lookupAnswer{dnsx.Answer{Addrs: []netip.Addr{modelAddr}, TTL: serviceTTL}, true}, nil
	}
	if reason == string(policy.ReasonService) {
		a, ok := s.services[h.Name()]
		if !ok {
			return lookupAnswer{}, dnsx.ErrNoAddress
		}
		return lookupAnswer{dnsx.Answer{Addrs: []netip.Addr{a}, TTL: serviceTTL}, true}, nil
	}
	if addrs := s.pinsOf(h); len(addrs) > 0 {
		return lookupAnswer{Answer: dnsx.Answer{Addrs: addrs, TTL: serviceTTL}}, nil
	}
	ans, err := s.resolver.Lookup(ctx, h.Name())
	return lookupAnswer{Answer: ans}, err
}

// isGiven says whether a name's address is not looked up but given: by us, by the
// run's services or by the operator.
func (s *Server) isGiven(h host.Host, reason string) bool {
	return h.Name() == policy.ModelHost && reason == string(policy.ReasonModel) || reason == string(policy.ReasonService) || len(s.pinsOf(h)) > 0
}

// pinsOf returns the addresses that the operator gave for a name: for any port, or
// for some.
func (s *Server) pinsOf(h host.Host) []netip.Addr {
	if a, ok := s.pins[h.Name()]; ok {
		return []netip.Addr{a.Addr()}
	}
	var out []netip.Addr
	for key, a := range s.pins {
		if name, _, err := net.SplitHostPort(key); err == nil && name == h.Name() && !slices.Contains(out, a.Addr()) {
			out = append(out, a.Addr())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// serviceTTL is the TTL of answers that were not looked up.
const serviceTTL = 60e9

// answerHTTPS passes on which protocols a host speaks. A failure is no answer
// rather than an error: clients go on without.
func (s *Server) answerHTTPS(ctx context.Context, h host.Host, q *dnsx.Query, ev *Event) []byte {
	udp := ev.Listener == KindDNSUDP
	ctx, cancel := context.WithTimeout(ctx, s.limits.dialTimeout())
	defer cancel()
	s.allowed(ev)
	if s.isGiven(h, ev.Reason) {
		return q.Answer(nil, 0, udp) // nobody outside has to know that somebody asks for it
	}
	reply, err := s.resolver.Exchange(ctx, h.Name(), dns.TypeHTTPS)
	if err != nil || reply.Rcode != dns.RcodeSuccess {
		return q.Answer(nil, 0, udp)
	}
	return q.HTTPS(reply, udp)
}
