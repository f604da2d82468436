package witness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/paths"
)

// lookupTime bounds one question to the world's name server.
const lookupTime = 3 * time.Second

// errNoAddress: the world's DNS has no address for a name.
var errNoAddress = errors.New("name has no address")

// lookup asks the world's DNS for an address, IPv4 first.
func (o *Open) lookup(ctx context.Context, name string) (netip.Addr, error) {
	for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
		q := new(dns.Msg)
		q.SetQuestion(dns.Fqdn(name), t)
		raw, err := q.Pack()
		if err != nil {
			return netip.Addr{}, fmt.Errorf("look %q up: %w", name, err)
		}
		reply, err := o.ask(ctx, raw, "udp")
		if err != nil {
			return netip.Addr{}, fmt.Errorf("look %q up: %w", name, err)
		}
		r := new(dns.Msg)
		if err := r.Unpack(reply); err != nil {
			return netip.Addr{}, fmt.Errorf("look %q up: %w", name, err)
		}
		for _, rr := range r.Answer {
			var ip net.IP
			switch rr := rr.(type) {
			case *dns.A:
				ip = rr.A
			case *dns.AAAA:
				ip = rr.AAAA
			}
			if a, ok := netip.AddrFromSlice(ip); ok {
				return a.Unmap(), nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("look %q up: %w", name, errNoAddress)
}

// ask sends a query to the world's name server as it is and returns the answer
// as it is.
func (o *Open) ask(ctx context.Context, query []byte, network string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	c, err := o.dial(ctx, network, o.resolver)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(lookupTime))
	if network == "udp" {
		if _, err := c.Write(query); err != nil {
			return nil, err
		}
		buf := make([]byte, maxDatagram)
		n, err := c.Read(buf)
		return buf[:n], err
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err = io.ReadFull(c, reply)
	return reply, err
}

// ServeDNSUDP is the open resolver over UDP. It returns at once.
func (o *Open) ServeDNSUDP(d Datagrams) {
	o.w.serveDatagrams(d, func(query []byte, src, dst netip.AddrPort) []byte {
		return o.forward(query, src, dst, "udp")
	})
}

// ServeDNSTCP is the open resolver over TCP. It returns at once.
func (o *Open) ServeDNSTCP(l net.Listener) {
	o.w.serveListener(l, func(c net.Conn) {
		led := newLedger(o.w, addrPort(c.RemoteAddr()), addrPort(c.LocalAddr()))
		led.fixed, led.silent = paths.ServiceResolver, true
		o.w.serveWith(newConn(c, led), func(c *conn) {
			defer c.Close()
			serveDNSStream(c, func(query []byte) []byte { return o.forward(query, c.src, c.dst, "tcp") }, func([]string) {}, o.w.finder.Find)
		})
	})
}

// forward records a query and passes it on.
func (o *Open) forward(query []byte, src, dst netip.AddrPort, network string) []byte {
	s := sighting{
		service: paths.ServiceResolver, proto: "dns", src: src, dst: dst, bytes: int64(len(query)), detail: "over " + network,
		nonces: o.w.finder.Find(query), obtained: canary.Find(query),
	}
	q := new(dns.Msg)
	if q.Unpack(query) == nil && len(q.Question) > 0 {
		s.host = strings.ToLower(strings.TrimSuffix(q.Question[0].Name, "."))
		s.detail += questionType(q)
		for _, n := range o.w.finder.FindName(unescapeName(q.Question[0].Name)) {
			s.nonces = appendNew(s.nonces, n)
		}
	}
	o.w.rec.see(s)
	reply, err := o.ask(o.w.ctx, query, network)
	if err != nil {
		return nil
	}
	return reply
}
