package witness

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/paths"
)

// Bounds of the name server.
const (
	maxStreamQueries = 1000 // over one connection
	minUDPAnswer     = 512
	maxUDPAnswer     = 4096
	ttl              = 0 // nothing is to be cached: rebinding depends on it
)

// dnsAnswer is the world's name server: authoritative for every name. What is
// asked is recorded as service "dns" whoever asks.
func (w *World) dnsAnswer(query []byte, src, dst netip.AddrPort, transport string) []byte {
	return w.answerDNS(query, src, dst, transport, paths.ServiceDNS)
}

// answerDNS answers and records under a service; "" does not record.
func (w *World) answerDNS(query []byte, src, dst netip.AddrPort, transport, service string) []byte {
	q := new(dns.Msg)
	unpackErr := q.Unpack(query)
	name := ""
	if len(q.Question) > 0 {
		name = q.Question[0].Name
	}
	nonces := w.finder.FindName(unescapeName(name))
	for _, n := range w.finder.Find(query) {
		nonces = appendNew(nonces, n)
	}
	if n := w.byAddr[dst.Addr()]; n != "" {
		nonces = appendNew(nonces, n)
	}
	if service != "" {
		obtained := canary.Find(query)
		w.rec.see(sighting{
			nonces: nonces, obtained: obtained, service: service, proto: "dns", src: src, dst: dst,
			host: strings.ToLower(strings.TrimSuffix(name, ".")), bytes: int64(len(query)), detail: "over " + transport + questionType(q),
			datagram: transport == "udp",
		})
	}
	if unpackErr != nil || len(q.Question) != 1 || q.Response {
		return failure(query, q)
	}
	r := w.compose(q, nonces)
	if transport == "udp" {
		r.Truncate(answerSize(q))
	}
	out, err := r.Pack()
	if err != nil {
		return failure(query, q)
	}
	return out
}

func appendNew(list []string, n string) []string {
	for _, have := range list {
		if have == n {
			return list
		}
	}
	return append(list, n)
}

// unescapeName undoes the presentation form's escapes as far as they are single
// characters, which is all that a nonce could need.
func unescapeName(name string) string { return strings.ReplaceAll(name, `\`, "") }

func questionType(q *dns.Msg) string {
	if len(q.Question) == 0 {
		return ""
	}
	return ", type " + dns.Type(q.Question[0].Qtype).String()
}

func answerSize(q *dns.Msg) int {
	if opt := q.IsEdns0(); opt != nil {
		return max(minUDPAnswer, min(int(opt.UDPSize()), maxUDPAnswer))
	}
	return minUDPAnswer
}

// failure answers what could not be read with FORMERR, if it has a header.
func failure(query []byte, q *dns.Msg) []byte {
	if len(query) < 12 || query[2]&0x80 != 0 {
		return nil
	}
	r := new(dns.Msg)
	r.Id, r.Response, r.Opcode, r.Rcode = binary.BigEndian.Uint16(query), true, q.Opcode, dns.RcodeFormatError
	out, err := r.Pack()
	if err != nil {
		return nil
	}
	return out
}

// compose makes the answer to a question. The proof of the first nonce is in a
// TXT record, as the answer when TXT was asked for and beside it otherwise.
func (w *World) compose(q *dns.Msg, nonces []string) *dns.Msg {
	question := q.Question[0]
	r := new(dns.Msg)
	r.SetReply(q)
	r.Authoritative, r.RecursionAvailable = true, true
	if opt := q.IsEdns0(); opt != nil {
		r.SetEdns0(maxUDPAnswer, false)
	}
	head := func(t uint16) dns.RR_Header {
		return dns.RR_Header{Name: question.Name, Rrtype: t, Class: dns.ClassINET, Ttl: ttl}
	}
	r.Answer = w.records(question, head)
	if len(nonces) > 0 {
		txt := &dns.TXT{Hdr: head(dns.TypeTXT), Txt: []string{w.answer(nonces[0])}}
		if question.Qtype == dns.TypeTXT || question.Qtype == dns.TypeANY {
			r.Answer = append(r.Answer, txt)
		} else {
			r.Extra = append([]dns.RR{txt}, r.Extra...)
		}
	}
	if len(r.Answer) == 0 {
		r.Ns = append(r.Ns, &dns.SOA{
			Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl}, Ns: "ns.world.", Mbox: "world.world.",
			Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: ttl,
		})
	}
	return r
}

// records are the records of a name, of the type asked for.
func (w *World) records(question dns.Question, head func(uint16) dns.RR_Header) []dns.RR {
	name := question.Name
	var out []dns.RR
	wants := func(t uint16) bool { return question.Qtype == t || question.Qtype == dns.TypeANY }
	if wants(dns.TypeA) {
		for _, a := range w.zone.answer(name, true) {
			out = append(out, &dns.A{Hdr: head(dns.TypeA), A: a.AsSlice()})
		}
	}
	if wants(dns.TypeAAAA) {
		for _, a := range w.zone.answer(name, false) {
			out = append(out, &dns.AAAA{Hdr: head(dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	switch question.Qtype {
	case dns.TypeMX:
		out = append(out, &dns.MX{Hdr: head(dns.TypeMX), Preference: 10, Mx: name})
	case dns.TypeNS:
		out = append(out, &dns.NS{Hdr: head(dns.TypeNS), Ns: "ns.world."})
	case dns.TypeSRV:
		out = append(out, &dns.SRV{Hdr: head(dns.TypeSRV), Priority: 10, Weight: 1, Port: 443, Target: serviceHost(name)})
	case dns.TypePTR:
		out = append(out, &dns.PTR{Hdr: head(dns.TypePTR), Ptr: "host.world."})
	}
	return out
}

// serviceHost is the name behind _service._proto.
func serviceHost(name string) string {
	for strings.HasPrefix(name, "_") {
		_, rest, ok := strings.Cut(name, ".")
		if !ok || rest == "" {
			return name
		}
		name = rest
	}
	return name
}

// dnsStream answers queries over TCP or TLS (RFC 7766, RFC 7858).
func (w *World) dnsStream(c *conn) {
	transport := "tcp"
	if c.inTLS {
		transport = "tls"
	}
	serveDNSStream(c, func(query []byte) []byte { return w.dnsAnswer(query, c.src, c.dst, transport) }, func(nonces []string) {
		c.claim(paths.ServiceDNS, "", nonces, nil)
	}, w.finder.Find)
}

// serveDNSStream reads length-prefixed queries and writes their answers.
func serveDNSStream(c net.Conn, answer func([]byte) []byte, claim func([]string), find func([]byte) []string) {
	for range maxStreamQueries {
		_ = c.SetDeadline(time.Now().Add(idleTime))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply := answer(query)
		claim(find(query))
		if reply == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// dohType is the media type of DNS over HTTPS (RFC 8484).
const dohType = "application/dns-message"

// dohAnswer answers DNS over HTTPS at any path. The request itself is recorded
// where it arrived; that it is DNS makes no difference to what it carried.
func (w *World) dohAnswer(req services.Request) (services.Response, bool) {
	var query []byte
	switch {
	case req.Method == http.MethodPost && req.Header.Get("Content-Type") == dohType:
		query = req.Body
	case req.Method == http.MethodGet && req.Query.Has("dns"):
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(req.Query.Get("dns"), "="))
		if err != nil {
			return services.Response{}, false
		}
		query = raw
	default:
		return services.Response{}, false
	}
	reply := w.answerDNS(query, netip.AddrPort{}, req.Dest, "https", "")
	if reply == nil {
		return services.Response{}, false
	}
	return services.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {dohType}}, Body: reply, Closed: true}, true
}
