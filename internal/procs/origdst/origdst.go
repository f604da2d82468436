// Package origdst tells a server where a packet was going before the packet
// filter brought it here, and lets it answer from there. It is what the proxy
// (redirected TCP) and the witness (TCP and UDP to any address and port) need on
// their side of battery/boundary's redirects; none of it takes a privilege.
//
// # TCP
//
// nft redirect rewrites the destination; conntrack remembers it, and
// SO_ORIGINAL_DST (IPv4) or IP6T_SO_ORIGINAL_DST (IPv6) reads it. Answers are
// rewritten back by conntrack. A connection that was not redirected yields its
// own local address; so a server that only wants redirected connections compares
// the two.
//
// # UDP
//
// There is no SO_ORIGINAL_DST for UDP. nft tproxy leaves the packet as it is and
// gives it to a transparent socket, where IP_RECVORIGDSTADDR or
// IPV6_RECVORIGDSTADDR adds the destination as a control message. An answer must
// come from that very address and port, so it takes a socket of its own, bound
// to it (ReplyUDP), which the process opens in the namespace that it runs in, the
// world's: IPV6_FREEBIND makes that possible for an address that the namespace
// does not have, and net.ipv4.ip_unprivileged_port_start=0 for a low port.
package origdst

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// soOriginalDst is SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST, which are both 80
// (linux/netfilter_ipv4.h, linux/netfilter_ipv6/ip6_tables.h).
const soOriginalDst = 80

// OOBSize is room enough for the control messages that ReadUDP wants.
const OOBSize = 128

// ErrNoDestination: a datagram came without its original destination, so the
// socket does not have the option set.
var ErrNoDestination = errors.New("datagram carries no original destination")

// TCP is the destination that the client of an accepted connection dialled.
func TCP(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("original destination: %w", err)
	}
	local, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errors.New("original destination: no TCP connection")
	}
	var dst netip.AddrPort
	var optErr error
	err = raw.Control(func(fd uintptr) {
		if local.IP.To4() != nil {
			dst, optErr = original4(fd)
		} else {
			dst, optErr = original6(fd)
		}
	})
	if errors.Is(optErr, unix.ENOENT) || errors.Is(optErr, unix.ENOPROTOOPT) {
		// Conntrack does not know the connection, or is not there at all: nothing
		// has rewritten its destination.
		dst, optErr = unmapped(local.AddrPort()), nil
	}
	if err = errors.Join(err, optErr); err != nil {
		return netip.AddrPort{}, fmt.Errorf("original destination: %w", err)
	}
	return dst, nil
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func original4(fd uintptr) (netip.AddrPort, error) {
	var sa unix.RawSockaddrInet4
	if err := getsockopt(fd, unix.SOL_IP, unsafe.Pointer(&sa), unsafe.Sizeof(sa)); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), port(sa.Port)), nil
}

func original6(fd uintptr) (netip.AddrPort, error) {
	var sa unix.RawSockaddrInet6
	if err := getsockopt(fd, unix.SOL_IPV6, unsafe.Pointer(&sa), unsafe.Sizeof(sa)); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), port(sa.Port)), nil
}

func getsockopt(fd, level uintptr, p unsafe.Pointer, size uintptr) error {
	n := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, level, soOriginalDst, uintptr(p), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// port reads a port that the kernel keeps in network byte order.
func port(p uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], p)
	return binary.BigEndian.Uint16(b[:])
}

// ReadUDP reads one datagram from a transparent socket that has
// IP_RECVORIGDSTADDR or IPV6_RECVORIGDSTADDR set: its length in buf, its source,
// and the destination that it was sent to.
func ReadUDP(c *net.UDPConn, buf []byte) (n int, src, dst netip.AddrPort, err error) {
	var oob [OOBSize]byte
	n, oobn, _, from, err := c.ReadMsgUDPAddrPort(buf, oob[:])
	if err != nil {
		return 0, netip.AddrPort{}, netip.AddrPort{}, err
	}
	dst, err = ParseUDP(oob[:oobn])
	return n, unmapped(from), dst, err
}

// ParseUDP finds the original destination among control messages.
func ParseUDP(oob []byte) (netip.AddrPort, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("control messages: %w", err)
	}
	for _, m := range msgs {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVORIGDSTADDR && len(m.Data) >= 8:
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Data[4:8])), binary.BigEndian.Uint16(m.Data[2:4])), nil
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVORIGDSTADDR && len(m.Data) >= 24:
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte(m.Data[8:24])), binary.BigEndian.Uint16(m.Data[2:4])), nil
		}
	}
	return netip.AddrPort{}, ErrNoDestination
}

// ReplyUDP sends one datagram to src as if from dst, the two that ReadUDP
// returned. It opens its socket in the caller's namespace.
func ReplyUDP(ctx context.Context, src, dst netip.AddrPort, payload []byte) error {
	lc := net.ListenConfig{Control: freebind(dst.Addr().Is4())}
	pc, err := lc.ListenPacket(ctx, "udp", dst.String())
	if err != nil {
		return fmt.Errorf("answer from %s: %w", dst, err)
	}
	defer pc.Close()
	if _, err := pc.(*net.UDPConn).WriteToUDPAddrPort(payload, src); err != nil {
		return fmt.Errorf("answer from %s to %s: %w", dst, src, err)
	}
	return nil
}

// freebind lets a socket bind an address that the machine does not have, beside
// any other socket that is bound to it.
func freebind(v4 bool) func(network, address string, c syscall.RawConn) error {
	level, opt := unix.SOL_IPV6, unix.IPV6_FREEBIND
	if v4 {
		level, opt = unix.SOL_IP, unix.IP_FREEBIND
	}
	return func(_, _ string, c syscall.RawConn) error {
		var optErr error
		err := c.Control(func(fd uintptr) {
			optErr = errors.Join(
				unix.SetsockoptInt(int(fd), level, opt, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
		})
		return errors.Join(err, optErr)
	}
}
