package boundary

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// packet is what can be read from the beginning of an IP packet.
type packet struct {
	proto    byte // of the transport header, after IPv6 extension headers
	src, dst netip.AddrPort
	length   int    // of the whole packet, by its own header
	payload  []byte // what is there of what follows the transport header
}

var errNotIP = errors.New("not a whole IP header")

// maxExtensions bounds the walk over IPv6 extension headers.
const maxExtensions = 8

// parsePacket reads an IPv4 or IPv6 packet that may be cut short behind its
// transport header. Nothing in it is trusted.
func parsePacket(b []byte) (packet, error) {
	if len(b) == 0 {
		return packet{}, errNotIP
	}
	switch b[0] >> 4 {
	case 4:
		return parse4(b)
	case 6:
		return parse6(b)
	}
	return packet{}, errNotIP
}

func parse4(b []byte) (packet, error) {
	if len(b) < 20 {
		return packet{}, errNotIP
	}
	header := int(b[0]&15) * 4
	if header < 20 || header > len(b) {
		return packet{}, errNotIP
	}
	p := packet{proto: b[9], length: int(binary.BigEndian.Uint16(b[2:]))}
	first := binary.BigEndian.Uint16(b[6:])&0x1fff == 0 // a later fragment has no transport header
	p.transport(netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), b[header:], first)
	return p, nil
}

func parse6(b []byte) (packet, error) {
	if len(b) < 40 {
		return packet{}, errNotIP
	}
	p := packet{proto: b[6], length: 40 + int(binary.BigEndian.Uint16(b[4:]))}
	rest, first := b[40:], true
	for range maxExtensions {
		size := extension(p.proto, rest)
		if size == 0 {
			break
		}
		if p.proto == unix.IPPROTO_FRAGMENT {
			first = binary.BigEndian.Uint16(rest[2:])&0xfff8 == 0
		}
		p.proto, rest = rest[0], rest[size:]
	}
	p.transport(netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), rest, first)
	return p, nil
}

// extension is the size of the extension header at the beginning of b, 0 when
// proto is none or it is not all there.
func extension(proto byte, b []byte) int {
	size := 0
	switch proto {
	case unix.IPPROTO_HOPOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS:
		if len(b) >= 2 {
			size = (int(b[1]) + 1) * 8
		}
	case unix.IPPROTO_FRAGMENT:
		size = 8
	}
	if size > len(b) {
		return 0
	}
	return size
}

// transport fills in ports and payload.
func (p *packet) transport(src, dst netip.Addr, b []byte, first bool) {
	p.src, p.dst, p.payload = netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0), b
	if !first {
		return
	}
	header := 0
	switch p.proto {
	case unix.IPPROTO_TCP:
		if len(b) >= 20 {
			header = int(b[12]>>4) * 4
		}
	case unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		header = 8
	}
	if header == 0 || header > len(b) {
		return
	}
	if p.proto == unix.IPPROTO_TCP || p.proto == unix.IPPROTO_UDP {
		p.src = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b))
		p.dst = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:]))
	}
	p.payload = b[header:]
}

func protoName(p byte) string {
	switch p {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_ICMP:
		return "icmp"
	case unix.IPPROTO_ICMPV6:
		return "icmpv6"
	}
	return strconv.Itoa(int(p))
}
