package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

var (
	src4 = netip.MustParseAddr("192.0.2.2")
	dst4 = netip.MustParseAddr("10.1.2.3")
	src6 = netip.MustParseAddr("2001:db8::2")
	dst6 = netip.MustParseAddr("fd00::3")
)

func ether(kind uint16, b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 12), kind), b...)
}

// packet4 builds an IPv4 packet; offset is the fragment's, in units of 8 bytes.
func packet4(proto byte, offset uint16, payload []byte) []byte {
	b := make([]byte, 20)
	b[0], b[9] = 0x45, proto
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[6:], offset)
	copy(b[12:], src4.AsSlice())
	copy(b[16:], dst4.AsSlice())
	return append(b, payload...)
}

func packet6(next byte, payload []byte) []byte {
	b := make([]byte, 40)
	b[0], b[6] = 0x60, next
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[8:], src6.AsSlice())
	copy(b[24:], dst6.AsSlice())
	return append(b, payload...)
}

func udp(payload string) []byte {
	b := binary.BigEndian.AppendUint16(nil, 1234)
	b = binary.BigEndian.AppendUint16(b, 53)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

func tcp(flags byte, options int, payload string) []byte {
	b := make([]byte, 20+options)
	binary.BigEndian.PutUint16(b, 4000)
	binary.BigEndian.PutUint16(b[2:], 80)
	b[12], b[13] = byte((20+options)/4)<<4, flags
	return append(b, payload...)
}

func echo(kind byte, payload string) []byte {
	return append([]byte{kind, 0, 0, 0, 0, 1, 0, 2}, payload...)
}

func TestFrame(t *testing.T) {
	dest := append([]byte{protoUDP, 0, 1, 4, 0, 0, 0, 0}, udp("x")...)
	first := append([]byte{protoUDP, 0, 0, 1, 0, 0, 0, 9}, udp("start")...)
	later := append([]byte{protoUDP, 0, 0, 9, 0, 0, 0, 9}, "rest of it"...)
	tests := []struct {
		name     string
		frame    []byte
		proto    string
		src, dst string
		payload  string
		syn, icm bool
	}{
		{"UDP over IPv4", ether(etherIPv4, packet4(protoUDP, 0, udp("hello"))), UDP, "192.0.2.2:1234", "10.1.2.3:53", "hello", false, false},
		{"with padding", append(ether(etherIPv4, packet4(protoUDP, 0, udp("a"))), "padding"...), UDP, "192.0.2.2:1234", "10.1.2.3:53", "a", false, false},
		{"in a VLAN", append(append(make([]byte, 12), 0x81, 0, 0, 5), ether(etherIPv4, packet4(protoUDP, 0, udp("v")))[12:]...), UDP, "192.0.2.2:1234", "10.1.2.3:53", "v", false, false},
		{"SYN with options", ether(etherIPv4, packet4(protoTCP, 0, tcp(2, 12, "fast open"))), TCP, "192.0.2.2:4000", "10.1.2.3:80", "fast open", true, false},
		{"SYN ACK", ether(etherIPv4, packet4(protoTCP, 0, tcp(0x12, 0, ""))), TCP, "192.0.2.2:4000", "10.1.2.3:80", "", false, false},
		{"later fragment", ether(etherIPv4, packet4(protoTCP, 7, []byte("middle"))), TCP, "192.0.2.2:0", "10.1.2.3:0", "middle", false, false},
		{"echo request", ether(etherIPv4, packet4(protoICMP, 0, echo(8, "ping"))), ICMP, "192.0.2.2:0", "10.1.2.3:0", "ping", false, true},
		{"echo reply", ether(etherIPv4, packet4(protoICMP, 0, echo(0, "pong"))), ICMP, "192.0.2.2:0", "10.1.2.3:0", "pong", false, false},
		{"SCTP", ether(etherIPv4, packet4(132, 0, []byte("sctp"))), Other, "192.0.2.2:0", "10.1.2.3:0", "sctp", false, false},
		{"UDP over IPv6", ether(etherIPv6, packet6(protoUDP, udp("six"))), UDP, "[2001:db8::2]:1234", "[fd00::3]:53", "six", false, false},
		{"echo over IPv6", ether(etherIPv6, packet6(protoICMP6, echo(128, "p6"))), ICMP6, "[2001:db8::2]:0", "[fd00::3]:0", "p6", false, true},
		{"behind an extension header", ether(etherIPv6, packet6(extDest, dest)), UDP, "[2001:db8::2]:1234", "[fd00::3]:53", "x", false, false},
		{"first fragment of IPv6", ether(etherIPv6, packet6(extFragment, first)), UDP, "[2001:db8::2]:1234", "[fd00::3]:53", "start", false, false},
		{"later fragment of IPv6", ether(etherIPv6, packet6(extFragment, later)), UDP, "[2001:db8::2]:0", "[fd00::3]:0", "rest of it", false, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, ok := Frame(tc.frame)
			if !ok {
				t.Fatal("not read")
			}
			if p.Proto != tc.proto || p.Src.String() != tc.src || p.Dst.String() != tc.dst || string(p.Payload) != tc.payload || p.SYN != tc.syn || p.Echo != tc.icm {
				t.Errorf("read %s %s→%s %q SYN %t echo %t", p.Proto, p.Src, p.Dst, p.Payload, p.SYN, p.Echo)
			}
		})
	}
}

func TestTunnels(t *testing.T) {
	inner := packet4(protoUDP, 0, udp("inside"))
	for name, frame := range map[string][]byte{
		"IPv4 in IPv4": ether(etherIPv4, packet4(protoIPIP, 0, inner)),
		"IPv4 in IPv6": ether(etherIPv6, packet6(protoIPIP, inner)),
		"GRE":          ether(etherIPv4, packet4(protoGRE, 0, append([]byte{0, 0, 8, 0}, inner...))),
	} {
		p, ok := Frame(frame)
		if !ok || p.Inner == nil || p.Inner.Dst != netip.AddrPortFrom(dst4, 53) || string(p.Inner.Payload) != "inside" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	b := inner
	for range 10 {
		b = packet4(protoIPIP, 0, b)
	}
	depth := 0
	p, _ := IP(b)
	for ; p != nil; p = p.Inner {
		depth++
	}
	if depth != maxTunnels+1 {
		t.Errorf("%d layers of tunnels were read", depth)
	}
}

func TestNoPackets(t *testing.T) {
	for name, frame := range map[string][]byte{
		"empty": nil, "short": make([]byte, 13), "ARP": ether(0x0806, make([]byte, 28)), "cut": ether(etherIPv4, packet4(17, 0, nil)[:10]),
		"bad header length": ether(etherIPv4, append([]byte{0x41}, make([]byte, 30)...)), "version 5": ether(etherIPv4, append([]byte{0x55}, make([]byte, 30)...)),
		"short IPv6": ether(etherIPv6, make([]byte, 20)),
	} {
		if p, ok := Frame(frame); ok {
			t.Errorf("%s: read %+v", name, p)
		}
	}
}

// Nothing that is read lies outside the frame, and every layer of payload is a
// part of it.
func FuzzFrame(f *testing.F) {
	f.Add(ether(etherIPv4, packet4(protoUDP, 0, udp("hello"))))
	f.Add(ether(etherIPv4, packet4(protoIPIP, 0, packet4(protoTCP, 0, tcp(2, 4, "x")))))
	f.Add(ether(etherIPv6, packet6(extDest, append([]byte{protoUDP, 0, 0, 0, 0, 0, 0, 0}, udp("x")...))))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := Frame(b)
		if !ok && p != nil {
			t.Fatal("a refused frame left a value")
		}
		for layer := 0; p != nil; p, layer = p.Inner, layer+1 {
			if layer > maxTunnels || !bytes.Contains(b, p.Payload) || !p.Src.Addr().IsValid() || !p.Dst.Addr().IsValid() {
				t.Fatalf("layer %d: %+v", layer, p)
			}
			if !slices.Contains([]string{TCP, UDP, ICMP, ICMP6, Other}, p.Proto) {
				t.Fatalf("protocol %q", p.Proto)
			}
		}
	})
}
