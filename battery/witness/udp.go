package witness

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/wallproof/wallproof/battery/witness/quic"
	"github.com/wallproof/wallproof/internal/procs/origdst"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/paths"
)

// maxDatagram is the largest datagram that is read.
const maxDatagram = 64 << 10

// replyTime bounds the sending of one answer.
const replyTime = 2 * time.Second

// Datagrams is a socket of the world for datagrams.
type Datagrams interface {
	// Read reads one datagram: its length, source, and the destination that it was
	// sent to.
	Read(buf []byte) (n int, src, dst netip.AddrPort, err error)
	// Reply sends one to src as if from dst.
	Reply(src, dst netip.AddrPort, payload []byte) error
	Close() error
}

// AnyPort is a socket that gets the datagrams of every address and port; see
// package origdst.
func AnyPort(c *net.UDPConn) Datagrams { return anyPort{c} }

type anyPort struct{ *net.UDPConn }

// Read reads one datagram.
func (a anyPort) Read(buf []byte) (int, netip.AddrPort, netip.AddrPort, error) {
	return origdst.ReadUDP(a.UDPConn, buf)
}

// Reply answers from the address that the datagram was sent to.
func (a anyPort) Reply(src, dst netip.AddrPort, payload []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), replyTime)
	defer cancel()
	return origdst.ReplyUDP(ctx, src, dst, payload)
}

// OnePort is an ordinary socket.
func OnePort(c *net.UDPConn) Datagrams { return onePort{c} }

type onePort struct{ *net.UDPConn }

// Read reads one datagram; its destination is the socket's own address.
func (o onePort) Read(buf []byte) (int, netip.AddrPort, netip.AddrPort, error) {
	n, src, err := o.ReadFromUDPAddrPort(buf)
	return n, plainAddr(src), addrPort(o.LocalAddr()), err
}

// Reply answers from the socket's own address.
func (o onePort) Reply(src, _ netip.AddrPort, payload []byte) error {
	if local := addrPort(o.LocalAddr()); local.Addr().Is6() && src.Addr().Is4() {
		src = netip.AddrPortFrom(netip.AddrFrom16(src.Addr().As16()), src.Port())
	}
	_, err := o.WriteToUDPAddrPort(payload, src)
	return err
}

// ServeUDP answers datagrams until the world is closed. It returns at once.
func (w *World) ServeUDP(d Datagrams) { w.serveDatagrams(d, w.datagram) }

// serveDatagrams gives each datagram to answer and sends what it returns.
func (w *World) serveDatagrams(d Datagrams, answer func(payload []byte, src, dst netip.AddrPort) []byte) {
	if !w.own(d, func() { _ = d.Close() }) {
		return
	}
	w.start(func() {
		buf := make([]byte, maxDatagram)
		for {
			n, src, dst, err := d.Read(buf)
			switch {
			case errors.Is(err, origdst.ErrNoDestination):
				continue
			case err != nil:
				if w.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
					return
				}
				w.fail("datagram: " + err.Error())
				if !w.pause(silence) {
					return
				}
				continue
			}
			w.touch()
			payload := append([]byte(nil), buf[:n]...)
			work := func() {
				if reply := answer(payload, plainAddr(src), plainAddr(dst)); reply != nil {
					_ = d.Reply(src, dst, reply) // a client that has gone is no concern
				}
			}
			if !w.handlers.TryAcquire(1) { // under a flood the socket's own buffer is the bound
				work()
				continue
			}
			w.start(func() {
				defer w.handlers.Release(1)
				work()
			})
		}
	})
}

// datagram records one datagram and returns the answer to it.
func (w *World) datagram(payload []byte, src, dst netip.AddrPort) []byte {
	if dst.Port() == portDNS {
		w.flows.add(flowKey{"udp", src, dst}, nil, paths.ServiceDNS)
		return w.dnsAnswer(payload, src, dst, "udp")
	}
	s := sighting{proto: "udp", datagram: true, service: w.serviceAt(dst.Addr()), src: src, dst: dst, bytes: int64(len(payload))}
	if s.service == paths.ServiceCollector {
		s.service = paths.ServiceUDP
	}
	w.flows.add(flowKey{"udp", src, dst}, nil, s.service)
	s.nonces = w.finder.Find(payload)
	s.obtained = canary.Find(payload)
	if quic.LongHeader(payload) {
		s.detail = "QUIC long header"
		if p, err := quic.Parse(payload); err == nil {
			s.detail = "QUIC Initial"
			for _, n := range w.finder.Find(p.Crypto) {
				s.nonces = appendNew(s.nonces, n)
			}
		}
	}
	if n := w.byAddr[dst.Addr()]; n != "" {
		s.nonces = appendNew(s.nonces, n)
	}
	w.rec.see(s)
	if len(s.nonces) == 0 {
		return nil
	}
	return []byte(w.answer(s.nonces[0]) + "\n")
}
