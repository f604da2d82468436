package dnsx

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// MaxMessage bounds a query; a real one has a name of at most 255 bytes.
const MaxMessage = 4096

// Query is one well-formed question of a sandbox.
type Query struct {
	Name string // as asked, in presentation form, without the root dot
	Type uint16
	msg  *dns.Msg
	size int // what the client takes over UDP
}

// Parse reads a query. reply, when not nil, answers a message that is none of
// what is served: FORMERR, NOTIMP or REFUSED. Both nil means to say nothing:
// the message is a response or no message at all.
func Parse(b []byte) (q *Query, reply []byte) {
	m := new(dns.Msg)
	if len(b) < 12 || len(b) > MaxMessage {
		return nil, nil
	}
	err := m.Unpack(b)
	if m.Response {
		return nil, nil
	}
	switch {
	case err != nil:
		m = &dns.Msg{MsgHdr: dns.MsgHdr{Id: uint16(b[0])<<8 | uint16(b[1])}}
		return nil, refuse(m, dns.RcodeFormatError)
	case m.Opcode != dns.OpcodeQuery:
		return nil, refuse(m, dns.RcodeNotImplemented)
	case len(m.Question) != 1 || len(m.Answer) != 0 || len(m.Ns) != 0:
		return nil, refuse(m, dns.RcodeFormatError)
	case m.Question[0].Qclass != dns.ClassINET:
		return nil, refuse(m, dns.RcodeRefused)
	}
	q = &Query{Name: m.Question[0].Name, Type: m.Question[0].Qtype, msg: m, size: dns.MinMsgSize}
	if n := len(q.Name); n > 1 && q.Name[n-1] == '.' {
		q.Name = q.Name[:n-1]
	}
	if opt := m.IsEdns0(); opt != nil {
		q.size = min(max(int(opt.UDPSize()), dns.MinMsgSize), udpSize)
	}
	return q, nil
}

// header answers with the question and without the rest of the message: nothing else of
// what a sandbox wrote is copied into an answer.
func header(m *dns.Msg, rcode int) *dns.Msg {
	r := new(dns.Msg)
	r.Id, r.Response, r.Opcode = m.Id, true, m.Opcode
	r.RecursionDesired, r.RecursionAvailable = m.RecursionDesired, true
	r.Rcode = rcode
	if len(m.Question) == 1 {
		r.Question = m.Question
	}
	return r
}

func refuse(m *dns.Msg, rcode int) []byte {
	b, err := header(m, rcode).Pack()
	if err != nil {
		return nil
	}
	return b
}

// Refuse answers REFUSED.
func (q *Query) Refuse() []byte { return refuse(q.msg, dns.RcodeRefused) }

// Fail answers SERVFAIL: the name is allowed and could not be looked up.
func (q *Query) Fail() []byte { return refuse(q.msg, dns.RcodeServerFailure) }

// NoName answers NXDOMAIN.
func (q *Query) NoName() []byte { return refuse(q.msg, dns.RcodeNameError) }

// Answer answers with the addresses of the family that was asked for, under
// the name that was asked for. Over UDP an answer that is too long is cut.
func (q *Query) Answer(addrs []netip.Addr, ttl time.Duration, udp bool) []byte {
	r := header(q.msg, dns.RcodeSuccess)
	seconds := uint32(max(ttl, minTTL) / time.Second)
	for _, a := range addrs {
		h := dns.RR_Header{Name: q.msg.Question[0].Name, Rrtype: q.Type, Class: dns.ClassINET, Ttl: seconds}
		switch {
		case a.Is4() && q.Type == dns.TypeA:
			r.Answer = append(r.Answer, &dns.A{Hdr: h, A: a.AsSlice()})
		case a.Is6() && q.Type == dns.TypeAAAA:
			r.Answer = append(r.Answer, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
		}
	}
	if udp {
		r.Truncate(q.size)
	}
	b, err := r.Pack()
	if err != nil {
		return q.Fail()
	}
	return b
}

// HTTPS answers an HTTPS or CNAME query from an upstream reply: of service
// bindings only priority and ALPN are kept, so neither an encrypted
// ClientHello nor an address or another name that no gate saw gets in.
func (q *Query) HTTPS(reply *dns.Msg, udp bool) []byte {
	r := header(q.msg, dns.RcodeSuccess)
	for _, rr := range reply.Answer {
		svc, ok := rr.(*dns.HTTPS)
		if !ok || dns.CanonicalName(svc.Hdr.Name) != dns.CanonicalName(q.Name) || svc.Priority == 0 || svc.Target != "." {
			continue
		}
		out := &dns.HTTPS{SVCB: dns.SVCB{Hdr: svc.Hdr, Priority: svc.Priority, Target: "."}}
		out.Hdr.Name = q.msg.Question[0].Name
		for _, kv := range svc.Value {
			if alpn, ok := kv.(*dns.SVCBAlpn); ok {
				out.Value = append(out.Value, &dns.SVCBAlpn{Alpn: withoutQUIC(alpn.Alpn)})
			}
		}
		r.Answer = append(r.Answer, out)
	}
	if udp {
		r.Truncate(q.size)
	}
	b, err := r.Pack()
	if err != nil {
		return q.Fail()
	}
	return b
}

// withoutQUIC drops HTTP/3, which the boundary refuses.
func withoutQUIC(alpn []string) []string {
	var out []string
	for _, p := range alpn {
		if p == "h2" || p == "http/1.1" {
			out = append(out, p)
		}
	}
	return out
}
