package lat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/sys/unix"
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

// A link that can be made is found, and taken away: tried where it can, in a network
// namespace of the test's own.
func TestTryLink(t *testing.T) {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never let go: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		for _, kind := range []string{"veth", "bridge"} {
			if err := tryLink(kind, "wp-test", 0); err != nil {
				done <- fmt.Errorf("%s: %w", kind, err)
				return
			}
		}
		if _, err := net.InterfaceByName("wp-test"); err == nil {
			done <- errors.New("a link was left")
			return
		}
		if err := tryLink("wallproof-none", "wp-test", 0); !errors.Is(err, unix.EOPNOTSUPP) {
			done <- fmt.Errorf("a kind that there is not: %w", err)
			return
		}
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
