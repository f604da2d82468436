package boundary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/internal/procs/origdst"
)

// forbidden are destinations that box a must not reach, in both families.
func forbidden(s *Stage) map[string]string {
	a, _ := s.Box("a")
	b, _ := s.Box("b")
	host := func(a netip.Addr, port int) string { return netip.AddrPortFrom(a, uint16(port)).String() }
	return map[string]string{
		"internet 4":                "8.8.8.8:853",
		"internet 6":                "[2606:4700::1111]:853",
		"private 10":                "10.9.9.9:22",
		"private 172":               "172.16.0.1:2375",
		"private 192":               "192.168.7.7:10250",
		"shared address space":      "100.100.100.200:8080",
		"benchmark range":           "198.18.0.1:8080",
		"class E":                   "240.0.0.1:8080",
		"unique local":              "[fd00::1]:22",
		"metadata 4":                "169.254.169.254:8080",
		"metadata 6":                "[fd00:ec2::254]:8080",
		"mapped":                    "[64:ff9b::a9fe:a9fe]:8080",
		"neighbour 4":               host(b.IPv4, 5000),
		"neighbour 6":               host(b.IPv6, 5000),
		"own gateway ssh 4":         host(a.Gateway4, 22),
		"own gateway ssh 6":         host(a.Gateway6, 22),
		"own gateway http 4":        host(a.Gateway4, 80),
		"own gateway transparent 4": host(a.Gateway4, PortTransparent),
		"own gateway transparent 6": host(a.Gateway6, PortTransparent),
		"own gateway socks":         host(a.Gateway4, PortSOCKS),
		"neighbour's proxy 4":       host(b.Gateway4, PortProxy),
		"neighbour's proxy 6":       host(b.Gateway6, PortProxy),
		"router's uplink 4":         host(routerUplink4.Addr(), PortProxy),
		"router's uplink 6":         host(routerUplink6.Addr(), PortProxy),
		"world 4":                   host(worldAddr4.Addr(), 9000),
		"world 6":                   host(worldAddr6.Addr(), 9000),
	}
}

func TestEnforcedRefusesAtOnceAndRecords(t *testing.T) {
	for _, uplink := range []Uplink{World, None} {
		t.Run(string(uplink), func(t *testing.T) {
			cfg := enforcedConfig()
			cfg.Uplink = uplink
			s := buildStage(t, cfg)
			files, err := s.Listeners() // listening must not matter
			if err != nil {
				t.Fatal(err)
			}
			defer closeFiles(files)
			for name, to := range forbidden(s) {
				for _, network := range []string{"tcp", "udp"} {
					refusedAndRecorded(t, s, name, network, to)
				}
			}
			refusedAndRecorded(t, s, "quic", "udp", "203.0.114.1:443")
			refusedAndRecorded(t, s, "quic", "udp", "[2001:db8:1234::1]:443")
			stats, err := s.DenialStats()
			if err != nil || stats.Lost+stats.Overflow+stats.Malformed != 0 {
				t.Errorf("records: %+v, %v", stats, err)
			}
		})
	}
}

func refusedAndRecorded(t *testing.T, s *Stage, name, network, to string) {
	t.Helper()
	b := box(t, s, "a")
	const text = "nonce-of-this-attempt"
	_, local, err := exchange(b.NetNSPath, network, to, text)
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s: %s to %s: %v, want a refusal", name, network, to, err)
		return
	}
	d := nextDenial(t, s, func(d Denial) bool { return d.Proto == network && d.Src.Port() == local.Port() })
	from := b.IPv4
	if d.Dst.Addr().Is6() {
		from = b.IPv6
	}
	if d.Dst.String() != to || d.Src.Addr() != from || d.Box != "a" || d.Rule != RuleDeny {
		t.Errorf("%s: recorded %+v, want %s to %s", name, d, from, to)
	}
	if network == "udp" && string(d.Payload) != text {
		t.Errorf("%s: payload %q", name, d.Payload)
	}
}

func TestEnforcedRefusesOtherProtocols(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	b := box(t, s, "a")
	tests := []struct {
		network, to string
		proto       string
		err         error // what a connected socket is told
	}{
		{"ip4:icmp", "8.8.8.8", "icmp", unix.EHOSTUNREACH},
		{"ip6:ipv6-icmp", "2606:4700::1111", "icmpv6", unix.EACCES},
		{"ip4:icmp", b.Gateway4.String(), "icmp", unix.EHOSTUNREACH},
		{"ip4:47", "10.0.0.1", "47", unix.EHOSTUNREACH},
		{"ip6:132", "fd00::1", "132", unix.EACCES},
		{"ip4:4", "192.168.0.1", "4", unix.EHOSTUNREACH},
		{"ip6:47", "2001:db8:9::1", "47", unix.EACCES},
	}
	for _, tt := range tests {
		err := procs.DoIn(b.NetNSPath, func() error {
			c, err := net.Dial(tt.network, tt.to)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patient))
			if _, err := c.Write(echoRequest(tt.proto)); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 1500))
			return err
		})
		if !errors.Is(err, tt.err) {
			t.Errorf("%s to %s: %v, want %v", tt.network, tt.to, err, tt.err)
		}
		d := nextDenial(t, s, func(d Denial) bool { return d.Proto == tt.proto && d.Dst.Addr().String() == tt.to })
		if d.Rule != RuleDeny || !strings.HasSuffix(string(d.Payload), "nonce") {
			t.Errorf("%s to %s: recorded %+v", tt.network, tt.to, d)
		}
	}
}

// echoRequest is an ICMP echo request that carries "nonce"; the kernel fills in
// the checksum of the one for IPv6.
func echoRequest(proto string) []byte {
	m := []byte{8, 0, 0, 0, 0, 1, 0, 1, 'n', 'o', 'n', 'c', 'e'}
	if proto == "icmpv6" {
		m[0] = 128
		return m
	}
	var sum uint32
	for i := 0; i+1 < len(m); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(m[i:]))
	}
	sum += uint32(m[len(m)-1]) << 8
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum))
	return m
}

func TestEnforcedRecordsWhatCannotBeAnswered(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	a, b := box(t, s, "a"), box(t, s, "b")
	tests := []struct {
		name, from, to, rule string
	}{
		{"spoofed private source", "10.1.1.1", "8.8.8.8:53", RuleSpoof},
		{"spoofed neighbour", b.IPv4.String(), a.Gateway4.String() + ":53", RuleSpoof},
		{"spoofed neighbour 6", b.IPv6.String(), "[" + a.Gateway6.String() + "]:53", RuleSpoof},
		{"spoofed source 6", "fd00::7", "[2001:db8:7::1]:443", RuleSpoof},
		{"multicast dns", "", "224.0.0.251:5353", RuleMulticast},
		{"multicast dns 6", "", "[ff02::fb%eth0]:5353", RuleMulticast},
		{"llmnr 6", "", "[ff02::1:3%eth0]:5355", RuleMulticast},
		{"site multicast", "", "[ff05::2]:5355", RuleMulticast},
		{"limited broadcast", "", "255.255.255.255:9", RuleMulticast},
		{"link broadcast", "", "192.0.2.3:9", RuleMulticast},
	}
	for _, tt := range tests {
		err := procs.DoIn(a.NetNSPath, func() error {
			d := net.Dialer{Control: anySource}
			if tt.from != "" {
				d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(tt.from)}
			}
			c, err := d.Dial("udp", tt.to)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte(tt.name))
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		d := nextDenial(t, s, func(d Denial) bool { return string(d.Payload) == tt.name })
		if d.Rule != tt.rule || d.Box != "a" || tt.from != "" && d.Src.Addr().String() != tt.from {
			t.Errorf("%s: recorded %+v", tt.name, d)
		}
	}
}

func anySource(network, _ string, c syscall.RawConn) error {
	var opErr error
	err := c.Control(func(fd uintptr) {
		if strings.HasSuffix(network, "4") {
			opErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1)
		} else {
			opErr = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
		}
	})
	return errors.Join(err, opErr)
}

// Packets that only a raw socket makes: addresses that mean the host itself, and
// TCP segments of no connection.
func TestEnforcedRefusesRawPackets(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	a := box(t, s, "a")
	tests := []struct {
		name, dst, rule string
		flags           byte
	}{
		{"loopback", "127.0.0.1", RuleMartian, 0x02},
		{"this network", "0.1.2.3", RuleMartian, 0x02},
		{"reset of no connection", "8.8.8.8", RuleStale, 0x04},
		{"syn", "8.8.8.8", RuleDeny, 0x02},
	}
	for i, tt := range tests {
		port := uint16(41000 + i)
		segment := tcp4(a.IPv4, netip.MustParseAddr(tt.dst), port, 9999, tt.flags)
		if err := sendFrame(a, segment); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		d := nextDenial(t, s, func(d Denial) bool { return d.Src.Port() == port })
		if d.Rule != tt.rule || d.Dst != netip.AddrPortFrom(netip.MustParseAddr(tt.dst), 9999) {
			t.Errorf("%s: recorded %+v", tt.name, d)
		}
	}
}

// tcp4 is a TCP segment over IPv4 with right checksums.
func tcp4(src, dst netip.Addr, sport, dport uint16, flags byte) []byte {
	p := make([]byte, 40)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[2:], 40)
	copy(p[12:], src.AsSlice())
	copy(p[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(p[10:], checksum(p[:20], 0))
	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp, sport)
	binary.BigEndian.PutUint16(tcp[2:], dport)
	tcp[12], tcp[13] = 5<<4, flags
	pseudo := append(append([]byte{}, p[12:20]...), 0, unix.IPPROTO_TCP, 0, 20)
	binary.BigEndian.PutUint16(tcp[16:], checksum(append(pseudo, tcp...), 0))
	return p
}

func checksum(b []byte, sum uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// sendFrame puts an IPv4 packet on the box's link, past its own routing.
func sendFrame(b Box, packet []byte) error {
	return procs.DoIn(b.NetNSPath, func() error {
		link, err := net.InterfaceByName(boxLink)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_IP), Ifindex: link.Index, Halen: 6}
		copy(to.Addr[:], b.gatewayMAC)
		return unix.Sendto(fd, packet, 0, to)
	})
}

func TestFragmentsAreRecordedWhole(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	a := box(t, s, "a")
	for _, to := range []string{"8.8.8.8:4433", "[2001:db8:7::1]:4433"} {
		text := strings.Repeat("fragment", 500)
		_, local, err := exchange(a.NetNSPath, "udp", to, text)
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v", to, err)
		}
		d := nextDenial(t, s, func(d Denial) bool { return d.Src.Port() == local.Port() })
		if d.Length < len(text) || string(d.Payload) != text[:MaxDenialPayload] {
			t.Errorf("%s: recorded %d bytes, payload of %d", to, d.Length, len(d.Payload))
		}
	}
}

// By default the kernel sends so few ICMP errors that most refusals of a burst
// would look like silence.
func TestBurstOfRefusalsIsSeenWhole(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	a := box(t, s, "a")
	for _, to := range []string{"8.8.8.8:4433", "[2001:db8:7::1]:4433"} {
		began := time.Now()
		refused := 0
		err := procs.DoIn(a.NetNSPath, func() error {
			var conns []net.Conn
			for range 200 {
				c, err := net.Dial("udp", to)
				if err != nil {
					return err
				}
				defer c.Close()
				if _, err := c.Write([]byte("x")); err != nil {
					return err
				}
				conns = append(conns, c)
			}
			deadline := time.Now().Add(2 * time.Second)
			for _, c := range conns {
				_ = c.SetReadDeadline(deadline)
				if _, err := c.Read(make([]byte, 1)); errors.Is(err, unix.ECONNREFUSED) {
					refused++
				}
			}
			return nil
		})
		if err != nil || refused != 200 {
			t.Errorf("%s: %d of 200 refusals seen (%v)", to, refused, err)
		}
		t.Logf("%s: 200 refusals in %s", to, time.Since(began))
	}
}

func TestRedirectLeadsToTheProxy(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	files, err := s.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	serveGateways(t, files)
	a := box(t, s, "a")
	for _, to := range []string{
		"93.184.216.34:80", "93.184.216.34:443", "169.254.169.254:80", "10.0.0.1:443", box(t, s, "b").IPv4.String() + ":80",
		"[2606:2800::1]:80", "[2606:2800::1]:443", "[fd00:ec2::254]:80", "[::ffff:0:10.0.0.1]:80", "203.0.113.2:80", "192.0.2.5:443",
	} {
		got, _, err := exchange(a.NetNSPath, "tcp", to, "")
		if want := "transparent " + netip.MustParseAddrPort(to).String(); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", to, got, err, want)
		}
	}
	for _, g := range []netip.Addr{a.Gateway4, a.Gateway6} {
		for _, k := range []struct {
			network string
			port    uint16
			want    string
		}{{"tcp", PortProxy, "proxy "}, {"tcp", PortDNS, "dns-tcp "}, {"udp", PortDNS, "dns-udp"}} {
			to := netip.AddrPortFrom(g, k.port).String()
			if got, _, err := exchange(a.NetNSPath, k.network, to, "q"); err != nil || !strings.HasPrefix(got, k.want) {
				t.Errorf("%s %s: %q, %v", k.network, to, got, err)
			}
		}
	}
	// A resolver of one's own choice is answered by ours, in its name.
	for _, to := range []string{"8.8.8.8:53", "[2001:4860:4860::8888]:53", "192.168.0.1:53"} {
		for _, network := range []string{"udp", "tcp"} {
			if got, _, err := exchange(a.NetNSPath, network, to, "q"); err != nil || !strings.HasPrefix(got, "dns-"+network) {
				t.Errorf("%s %s: %q, %v", network, to, got, err)
			}
		}
	}
}

// serveGateways answers on each socket with its name, and for TCP with the
// original destination.
func serveGateways(t *testing.T, files []procs.NamedFile) {
	t.Helper()
	for _, f := range files {
		if f.Name == "dns-udp" {
			c, err := net.FilePacketConn(f.File)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				buf := make([]byte, 512)
				for {
					_, from, err := c.ReadFrom(buf)
					if err != nil {
						return
					}
					_, _ = c.WriteTo([]byte("dns-udp"), from)
				}
			}()
			continue
		}
		l, err := net.FileListener(f.File)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				dst, err := origdst.TCP(c.(*net.TCPConn))
				if err != nil {
					t.Error(err)
				}
				fmt.Fprintf(c, "%s %s", f.Name, dst)
				if f.Name == "transparent" || f.Name == "proxy" {
					_ = c.(*net.TCPConn).CloseWrite()
				}
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		}()
	}
	closeFiles(files)
}

// Only the proxy's user may send from the router to the world.
func TestRouterSendsForTheProxyOnly(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	for _, tt := range []struct {
		uid  uint32
		want string
	}{{testUID, "sent"}, {testUID + 1, "operation not permitted"}} {
		for _, to := range []string{"1.2.3.4:5", "[2001:db8:7::1]:5"} {
			p, err := procs.Start(t.Context(), procs.Spec{
				Path: procs.Self, Argv: []string{"boundary-test-send"}, NetNS: s.RouterNS(), UID: tt.uid, GID: tt.uid, Config: to,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(p.Ready()); !strings.Contains(got, tt.want) {
				t.Errorf("uid %d to %s: %s, want %s", tt.uid, to, got, tt.want)
			}
			if err := p.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The router and the neighbour have no way to begin a conversation with a box.
func TestNobodyReachesABox(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	a := box(t, s, "a")
	for _, addr := range []netip.Addr{a.IPv4, a.IPv6} {
		f, err := procs.ListenIn(a.NetNSPath, "udp", netip.AddrPortFrom(addr, 7777).String())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c, err := net.FilePacketConn(f)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, from := range []string{s.RouterNS(), s.WorldNS(), box(t, s, "b").NetNSPath} {
			_ = procs.DoIn(from, func() error {
				out, err := net.Dial("udp", netip.AddrPortFrom(addr, 7777).String())
				if err != nil {
					return err
				}
				defer out.Close()
				_, err = out.Write([]byte("hello"))
				return err
			})
			if got, err := arrivedAlready(c.(*net.UDPConn)); got || err != nil {
				t.Errorf("a datagram from %s reached the box (%v)", from, err)
			}
		}
	}
}
