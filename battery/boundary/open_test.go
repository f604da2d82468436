package boundary

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

// everywhere are destinations that must all arrive at the witness, with the
// address and port that were dialled.
var everywhere = []string{
	"1.2.3.4:80", "1.2.3.4:443", "8.8.8.8:53", "169.254.169.254:80", "10.9.9.9:22", "172.16.3.3:2375", "192.168.7.7:10250",
	"100.100.100.200:80", "198.18.0.1:65535", "240.0.0.1:1024", "203.0.113.2:9", "203.0.113.77:1", "192.0.2.200:8080",
	"[2606:4700::1111]:443", "[fd00:ec2::254]:80", "[fd00::1]:22", "[64:ff9b::a9fe:a9fe]:80", "[2002:a9fe:a9fe::]:53",
	"[2001:db8:ffff::2]:25", "[2001:db8:77::1]:1",
}

func TestOpenLeadsEverywhere(t *testing.T) {
	s := buildStage(t, openConfig())
	if _, err := s.VerifyInPlace(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := startWitness(t, s)
	for _, name := range []string{"a", "b"} {
		ns := box(t, s, name).NetNSPath
		for _, to := range everywhere {
			for _, network := range []string{"tcp", "udp"} {
				got, _, err := exchange(ns, network, to, "hello")
				if want := netip.MustParseAddrPort(to).String(); err != nil || got != want {
					t.Errorf("%s %s: the witness saw %q (%v)", network, to, got, err)
				}
			}
		}
	}
	select {
	case e := <-events:
		t.Errorf("the witness complains: %s", e)
	default:
	}
	// And once more with the sockets in use: the check must not depend on them.
	if _, err := s.VerifyInPlace(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenCapturesWhatHasNoSocket(t *testing.T) {
	s := buildStage(t, openConfig())
	events := startWitness(t, s)
	for _, tt := range []struct{ network, to, proto string }{
		{"ip4:icmp", "9.9.9.9", "icmp"}, {"ip6:ipv6-icmp", "2620:fe::fe", "icmpv6"},
	} {
		err := procs.DoIn(box(t, s, "a").NetNSPath, func() error {
			c, err := net.Dial(tt.network, tt.to)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patient))
			if _, err := c.Write(echoRequest(tt.proto)); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 64)) // the world answers by itself
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", tt.to, err)
		}
		for want := "captured " + tt.to + " nonce"; ; {
			select {
			case e := <-events:
				if e == want {
					goto next
				}
			case <-time.After(patient):
				t.Fatalf("the capture has no %q", want)
			}
		}
	next:
	}
}

func TestOpenJoinsBoxes(t *testing.T) {
	s := buildStage(t, openConfig())
	a, b := box(t, s, "a"), box(t, s, "b")
	for _, addr := range []netip.Addr{b.IPv4, b.IPv6} {
		f, err := procs.ListenIn(b.NetNSPath, "tcp", netip.AddrPortFrom(addr, 5000).String())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l, err := net.FileListener(f)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Write([]byte(c.RemoteAddr().String()))
				c.Close()
			}
		}()
		got, local, err := exchange(a.NetNSPath, "tcp", netip.AddrPortFrom(addr, 5000).String(), "")
		if err != nil || netip.MustParseAddrPort(got).Port() != local.Port() {
			t.Errorf("%s: %q, %v", addr, got, err)
		}
	}
}

func TestServicesHaveSocketsOfTheirOwn(t *testing.T) {
	cfg := openConfig()
	cfg.Services = []Service{{"tcp", 80}, {"udp", 53}}
	s := buildStage(t, cfg)
	files, err := s.WorldListeners()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(files)
	names := make(map[string]int)
	for _, f := range files {
		names[f.Name]++
		if f.Name != "tcp-80" {
			continue
		}
		l, err := net.FileListener(f.File)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("service at " + c.LocalAddr().String()))
				c.Close()
			}
		}()
	}
	for name, want := range map[string]int{
		"any-tcp4": 1, "any-tcp6": 1, "any-udp4": 1, "any-udp6": 1, "tcp-80": 2, "udp-53": 2, "capture": 1,
	} {
		if names[name] != want {
			t.Errorf("%d sockets %s, want %d", names[name], name, want)
		}
	}
	for _, to := range []string{"10.1.2.3:80", "[fd00:ec2::254]:80"} {
		if got, _, err := exchange(box(t, s, "a").NetNSPath, "tcp", to, ""); err != nil || got != "service at "+to {
			t.Errorf("%s: %q, %v", to, got, err)
		}
	}
}

// The listeners of the open mode belong to the witness; no transparent one.
func TestOpenListeners(t *testing.T) {
	cfg := openConfig()
	cfg.SOCKS = true
	s := buildStage(t, cfg)
	files, err := s.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(files)
	names := make(map[string]int)
	for _, f := range files {
		names[f.Name]++
	}
	if len(names) != 4 || names["proxy"] != 4 || names["socks"] != 4 || names["dns-udp"] != 4 || names["dns-tcp"] != 4 {
		t.Errorf("sockets: %v", names)
	}
	if _, err := s.Listeners(); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a second set of sockets: %v", err)
	}
}

// A service's UDP socket answers from where it was asked by giving the control
// message back.
func TestUDPServiceAnswersAsAsked(t *testing.T) {
	cfg := openConfig()
	cfg.Services = []Service{{"udp", 53}}
	s := buildStage(t, cfg)
	files, err := s.WorldListeners()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(files)
	for _, f := range files {
		if f.Name != "udp-53" {
			continue
		}
		pc, err := net.FilePacketConn(f.File)
		if err != nil {
			t.Fatal(err)
		}
		c := pc.(*net.UDPConn)
		defer c.Close()
		go func() {
			buf, oob := make([]byte, 512), make([]byte, 128)
			for {
				n, oobn, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
				if err != nil {
					return
				}
				if _, _, err := c.WriteMsgUDPAddrPort(buf[:n], oob[:oobn], from); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for _, to := range []string{"8.8.8.8:53", "[2001:4860:4860::8888]:53"} {
		if got, _, err := exchange(box(t, s, "a").NetNSPath, "udp", to, "query"); err != nil || got != "query" {
			t.Errorf("%s: %q, %v", to, got, err)
		}
	}
}

// The phases of a run stand side by side and share nothing.
func TestPhasesSideBySide(t *testing.T) {
	attack, control := enforcedConfig(), openConfig()
	control.Run = attack.Run
	claim(t, attack.Run)
	var stages [2]*Stage
	var group errgroup.Group
	for i, cfg := range []Config{attack, control} {
		group.Go(func() (err error) {
			if stages[i], err = Build(t.Context(), cfg); err == nil {
				_, err = stages[i].VerifyInPlace(t.Context())
			}
			return err
		})
	}
	err := group.Wait()
	t.Cleanup(func() {
		for _, s := range stages {
			if s == nil {
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if left := namesOf(t, attack.Run); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	startWitness(t, stages[1])
	const to = "10.9.9.9:22"
	if got, _, err := exchange(box(t, stages[1], "a").NetNSPath, "tcp", to, "x"); err != nil || got != to {
		t.Errorf("control: %q, %v", got, err)
	}
	if _, _, err := exchange(box(t, stages[0], "a").NetNSPath, "tcp", to, "x"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("attack: %v", err)
	}
	if stats, err := stages[1].DenialStats(); err != nil || stats != (DenialStats{}) {
		t.Errorf("the control recorded %+v (%v)", stats, err)
	}
}
