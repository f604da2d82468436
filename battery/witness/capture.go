package witness

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/witness/capture"
	"github.com/wallproof/wallproof/probes/paths"
)

const (
	maxPacket = 1 << 17 // a segment that the kernel has yet to cut up may be large
	// maxDeepScan is the largest TCP payload that is decoded in every way. A larger
	// one is part of a bulk transfer over a connection, whose service scans all.
	maxDeepScan = 1500
)

// ServeCapture records the packets that a packet socket (AF_PACKET, SOCK_RAW)
// sees arriving, until the world is closed. It returns at once; the file is the
// caller's.
func (w *World) ServeCapture(f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("take over the capture socket: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that closing it ends a read
		_ = unix.Close(fd)
		return fmt.Errorf("take over the capture socket: %w", err)
	}
	own := os.NewFile(uintptr(fd), "capture")
	raw, err := own.SyscallConn()
	if err != nil {
		_ = own.Close()
		return fmt.Errorf("take over the capture socket: %w", err)
	}
	if !w.own(own, func() { _ = own.Close() }) {
		return nil
	}
	w.start(func() {
		buf := make([]byte, maxPacket)
		for {
			var n int
			var from unix.Sockaddr
			var readErr error
			err := raw.Read(func(fd uintptr) bool {
				n, from, readErr = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
				return !errors.Is(readErr, unix.EAGAIN)
			})
			if err != nil {
				return // closed
			}
			if readErr != nil {
				if w.ctx.Err() != nil {
					return
				}
				w.fail("capture: " + readErr.Error())
				if errors.Is(readErr, unix.ENETDOWN) || errors.Is(readErr, unix.EINTR) || errors.Is(readErr, unix.ENOBUFS) {
					continue
				}
				return
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
				continue
			}
			if p, ok := capture.Frame(buf[:n]); ok {
				w.seePacket(p)
			}
		}
	})
	return nil
}

// seePacket records a packet that carries a nonce or goes to a nonce's address,
// and what is inside a tunnel likewise.
func (w *World) seePacket(p *capture.Packet) {
	for ; p != nil; p = p.Inner {
		w.seeOne(p)
	}
}

func (w *World) seeOne(p *capture.Packet) {
	dst := plainAddr(p.Dst)
	var nonces []string
	if p.Proto == capture.TCP && len(p.Payload) > maxDeepScan {
		nonces = w.finder.FindPlain(p.Payload)
	} else {
		nonces = w.finder.Find(p.Payload)
	}
	if n := w.byAddr[dst.Addr()]; n != "" && (p.Proto != capture.TCP || p.SYN || len(p.Payload) > 0) {
		nonces = appendNew(nonces, n)
	}
	if len(nonces) == 0 {
		return
	}
	w.touch()
	s := sighting{
		nonces: nonces, service: packetService(p, dst.Addr()), proto: p.Proto, src: plainAddr(p.Src), dst: dst, bytes: int64(len(p.Payload)), datagram: p.Proto == capture.UDP,
	}
	if p.Proto == capture.TCP || p.Proto == capture.UDP {
		w.flows.hold(heldPacket{at: time.Now(), key: flowKey{p.Proto, s.src, dst}, s: s, payload: bytes.Clone(p.Payload[:min(len(p.Payload), peekSize)])})
		return
	}
	w.rec.see(s)
}

// packetService is the service of a packet that no service answered.
func packetService(p *capture.Packet, dst netip.Addr) string {
	if s := special(dst); s != "" {
		return s
	}
	if p.Echo {
		return paths.ServiceICMP
	}
	return paths.ServiceCapture
}
