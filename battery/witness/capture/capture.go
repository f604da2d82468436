// Package capture takes packets apart as far as a witness needs: from where to
// where, of which protocol, with which payload. It is pure; every length comes
// from outside and is checked.
package capture

import (
	"encoding/binary"
	"net/netip"
)

// Protocols, as observations name them.
const (
	TCP   = "tcp"
	UDP   = "udp"
	ICMP  = "icmp"
	ICMP6 = "icmp6"
	Other = "other"
)

// IP protocol numbers (IANA).
const (
	protoICMP   = 1
	protoIPIP   = 4
	protoTCP    = 6
	protoUDP    = 17
	protoIPv6   = 41
	protoGRE    = 47
	protoICMP6  = 58
	protoNoNext = 59
)

// Extension headers of IPv6 (RFC 8200) that are passed over.
const (
	extHopByHop = 0
	extRouting  = 43
	extFragment = 44
	extAuth     = 51
	extDest     = 60
	extMobility = 135
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherQinQ = 0x88a8

	maxExtensions = 16
	maxTunnels    = 3
)

// Packet is one IP packet. Ports are 0 where there are none.
type Packet struct {
	Proto    string
	Src, Dst netip.AddrPort
	Payload  []byte // behind the transport header
	SYN      bool   // TCP: begins a connection
	Echo     bool   // ICMP: an echo request
	Inner    *Packet
}

// Frame reads an Ethernet frame.
func Frame(b []byte) (*Packet, bool) {
	if len(b) < 14 {
		return nil, false
	}
	kind, rest := binary.BigEndian.Uint16(b[12:]), b[14:]
	for kind == etherVLAN || kind == etherQinQ {
		if len(rest) < 4 {
			return nil, false
		}
		kind, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	switch kind {
	case etherIPv4, etherIPv6:
		return IP(rest)
	}
	return nil, false
}

// IP reads an IPv4 or IPv6 packet.
func IP(b []byte) (*Packet, bool) { return ip(b, 0) }

func ip(b []byte, depth int) (*Packet, bool) {
	if len(b) == 0 || depth > maxTunnels {
		return nil, false
	}
	switch b[0] >> 4 {
	case 4:
		return ip4(b, depth)
	case 6:
		return ip6(b, depth)
	}
	return nil, false
}

func ip4(b []byte, depth int) (*Packet, bool) {
	if len(b) < 20 {
		return nil, false
	}
	head := int(b[0]&15) * 4
	if head < 20 || head > len(b) {
		return nil, false
	}
	if total := int(binary.BigEndian.Uint16(b[2:])); total >= head && total < len(b) {
		b = b[:total] // what follows is the link's padding
	}
	later := binary.BigEndian.Uint16(b[6:])&0x1fff != 0
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	return transport(b[9], b[head:], src, dst, later, depth), true
}

func ip6(b []byte, depth int) (*Packet, bool) {
	if len(b) < 40 {
		return nil, false
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	next, rest := b[6], b[40:]
	if size := int(binary.BigEndian.Uint16(b[4:])); size > 0 && size < len(rest) {
		rest = rest[:size]
	}
	later := false
	for range maxExtensions {
		size := 0
		switch next {
		case extHopByHop, extRouting, extDest, extMobility:
			if len(rest) >= 2 {
				size = 8 + int(rest[1])*8
			}
		case extAuth:
			if len(rest) >= 2 {
				size = 8 + int(rest[1])*4
			}
		case extFragment:
			size = 8
			later = later || len(rest) >= 4 && binary.BigEndian.Uint16(rest[2:])&0xfff8 != 0
		default:
			return transport(next, rest, src, dst, later, depth), true
		}
		if size == 0 || size > len(rest) {
			break
		}
		next, rest = rest[0], rest[size:]
	}
	return transport(protoNoNext, rest, src, dst, later, depth), true
}

// transport reads what an IP packet carries. A later fragment has no transport
// header.
func transport(proto byte, b []byte, src, dst netip.Addr, later bool, depth int) *Packet {
	p := &Packet{Proto: Other, Src: netip.AddrPortFrom(src, 0), Dst: netip.AddrPortFrom(dst, 0), Payload: b}
	switch proto {
	case protoTCP:
		p.Proto = TCP
		if !later {
			p.tcp(b)
		}
	case protoUDP:
		p.Proto = UDP
		if !later && len(b) >= 8 {
			p.ports(b)
			p.Payload = b[8:]
		}
	case protoICMP, protoICMP6:
		p.icmp(proto, b, later)
	case protoIPIP, protoIPv6:
		if inner, ok := ip(b, depth+1); ok && !later {
			p.Inner = inner
		}
	case protoGRE:
		if !later && len(b) >= 4 && b[0]&0xb0 == 0 { // without optional fields
			if inner, ok := ip(b[4:], depth+1); ok {
				p.Inner = inner
			}
		}
	}
	return p
}

func (p *Packet) ports(b []byte) {
	p.Src = netip.AddrPortFrom(p.Src.Addr(), binary.BigEndian.Uint16(b))
	p.Dst = netip.AddrPortFrom(p.Dst.Addr(), binary.BigEndian.Uint16(b[2:]))
}

func (p *Packet) tcp(b []byte) {
	if len(b) < 20 {
		return
	}
	p.ports(b)
	p.SYN = b[13]&0x12 == 0x02
	if off := int(b[12]>>4) * 4; off >= 20 && off <= len(b) {
		p.Payload = b[off:]
	}
}

func (p *Packet) icmp(proto byte, b []byte, later bool) {
	p.Proto = ICMP
	request := byte(8)
	if proto == protoICMP6 {
		p.Proto, request = ICMP6, 128
	}
	if later || len(b) < 8 {
		return
	}
	p.Echo, p.Payload = b[0] == request, b[8:]
}
