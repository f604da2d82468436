package origdst

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// control is one control message as the kernel writes it.
func control(level, typ int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(typ))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func sockaddr4() []byte {
	return []byte{2, 0, 0x11, 0x51, 10, 9, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0}
}

func sockaddr6() []byte {
	b := make([]byte, 28)
	b[0], b[2], b[3] = 10, 0x01, 0xbb
	copy(b[8:], netip.MustParseAddr("fd00:ec2::254").AsSlice())
	return b
}

func TestParseUDP(t *testing.T) {
	ttl := control(unix.SOL_IP, unix.IP_TTL, []byte{64, 0, 0, 0})
	tests := []struct {
		name string
		oob  []byte
		want string
	}{
		{"IPv4", control(unix.SOL_IP, unix.IP_RECVORIGDSTADDR, sockaddr4()), "10.9.8.7:4433"},
		{"IPv6", control(unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR, sockaddr6()), "[fd00:ec2::254]:443"},
		{"behind another", append(ttl, control(unix.SOL_IP, unix.IP_RECVORIGDSTADDR, sockaddr4())...), "10.9.8.7:4433"},
		{"none", nil, ""},
		{"another", ttl, ""},
		{"too short", control(unix.SOL_IP, unix.IP_RECVORIGDSTADDR, []byte{2, 0, 1}), ""},
		{"cut", control(unix.SOL_IP, unix.IP_RECVORIGDSTADDR, sockaddr4())[:20], ""},
	}
	for _, tt := range tests {
		got, err := ParseUDP(tt.oob)
		if tt.want == "" {
			if err == nil || got.IsValid() {
				t.Errorf("%s: %s, %v", tt.name, got, err)
			}
			continue
		}
		if err != nil || got.String() != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
	if _, err := ParseUDP(nil); !errors.Is(err, ErrNoDestination) {
		t.Errorf("no control message: %v", err)
	}
}

func FuzzParseUDP(f *testing.F) {
	f.Add(control(unix.SOL_IP, unix.IP_RECVORIGDSTADDR, sockaddr4()))
	f.Add(control(unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR, sockaddr6()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, oob []byte) {
		if a, err := ParseUDP(oob); (err == nil) != a.IsValid() {
			t.Fatalf("%s with error %v", a, err)
		}
	})
}

// Without a redirect the destination is the listener's own address.
func TestTCPNotRedirected(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if dst, err := TCP(c.(*net.TCPConn)); err != nil || dst.String() != l.Addr().String() {
			t.Errorf("%s: %s, %v", l.Addr(), dst, err)
		}
	}
}

func TestReplyComesFromTheDestination(t *testing.T) {
	client, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	src := client.LocalAddr().(*net.UDPAddr).AddrPort()
	dst := netip.MustParseAddrPort("127.9.9.9:40404")
	if err := ReplyUDP(t.Context(), src, dst, []byte("answer")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, from, err := client.ReadFrom(buf)
	if err != nil || from.String() != dst.String() || string(buf[:n]) != "answer" {
		t.Errorf("%q from %v, %v", buf[:n], from, err)
	}
}
