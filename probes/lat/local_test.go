package lat

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/wallproof/wallproof/probes/kit"
)

func TestPacket(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("10.1.2.3")
	p := packet(17, src, dst, udpHeader(40000, 4445, []byte("hello")))
	if len(p) != 20+8+5 || p[0] != 0x45 || p[9] != 17 || binary.BigEndian.Uint16(p[2:]) != uint16(len(p)) {
		t.Errorf("header % x", p[:20])
	}
	if kit.Checksum(p[:20]) != 0 {
		t.Errorf("the header's checksum does not cancel: %#x", kit.Checksum(p[:20]))
	}
	if netip.AddrFrom4([4]byte(p[12:16])) != src || netip.AddrFrom4([4]byte(p[16:20])) != dst {
		t.Errorf("addresses % x", p[12:20])
	}
	udp := p[20:]
	if binary.BigEndian.Uint16(udp) != 40000 || binary.BigEndian.Uint16(udp[2:]) != 4445 || binary.BigEndian.Uint16(udp[4:]) != 13 || string(udp[8:]) != "hello" {
		t.Errorf("datagram % x", udp)
	}
}

func TestLinkOf(t *testing.T) {
	if l := linkOf(netip.MustParseAddr("127.0.0.1")); l == nil || l.Name != "lo" {
		t.Errorf("%+v", l)
	}
	if l := linkOf(netip.MustParseAddr("203.0.113.77")); l != nil {
		t.Errorf("%+v", l)
	}
}
