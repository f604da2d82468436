//go:build breaks

package boundary

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

func brokenStage(t *testing.T, h Hooks) *Stage {
	t.Helper()
	cfg := enforcedConfig()
	cfg.Hooks = h
	s := buildStage(t, cfg)
	if _, err := s.VerifyInPlace(t.Context()); err != nil {
		t.Fatalf("a broken boundary must get as far as its attack: %v", err)
	}
	return s
}

// reaches wants the witness at to to have answered.
func reaches(t *testing.T, s *Stage, network, to string) {
	t.Helper()
	got, _, err := exchange(box(t, s, "a").NetNSPath, network, to, "hello")
	if err != nil || got != netip.MustParseAddrPort(to).String() {
		t.Errorf("%s %s does not reach the world: %q, %v", network, to, got, err)
	}
}

func refused(t *testing.T, s *Stage, network, to string) {
	t.Helper()
	if _, _, err := exchange(box(t, s, "a").NetNSPath, network, to, "hello"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s %s: %v, want a refusal", network, to, err)
	}
}

func TestBreakAcceptForward(t *testing.T) {
	s := brokenStage(t, Hooks{Accept: []AcceptRule{
		{CIDR: "10.0.0.0/8"},
		{CIDR: "fd00::/8", Proto: "tcp", Ports: []PortRange{{First: 22}, {First: 8000, Last: 8080}}},
	}})
	startWitness(t, s)
	for _, port := range []string{"22", "80", "443", "53"} {
		reaches(t, s, "tcp", "10.9.9.9:"+port)
		reaches(t, s, "udp", "10.9.9.9:"+port)
	}
	reaches(t, s, "tcp", "[fd00::1]:22")
	reaches(t, s, "tcp", "[fd00::1]:8000")
	reaches(t, s, "tcp", "[fd00::1]:8080")
	refused(t, s, "tcp", "[fd00::1]:8081")
	refused(t, s, "udp", "[fd00::1]:22")
	refused(t, s, "tcp", "192.168.7.7:22")
	refused(t, s, "tcp", "[2001:db8:7::1]:22")
}

func TestBreakAcceptNeighbour(t *testing.T) {
	s := brokenStage(t, Hooks{Accept: []AcceptRule{{CIDR: "192.0.2.4/30", Proto: "tcp"}}})
	b := box(t, s, "b")
	answers(t, b.NetNSPath, netip.AddrPortFrom(b.IPv4, 5000))
	if got, _, err := exchange(box(t, s, "a").NetNSPath, "tcp", b.IPv4.String()+":5000", ""); err != nil || got != "reached" {
		t.Errorf("the neighbour is not reached: %q, %v", got, err)
	}
	refused(t, s, "tcp", "10.0.0.1:22")
}

// answers serves one TCP socket in a namespace.
func answers(t *testing.T, ns string, at netip.AddrPort) {
	t.Helper()
	f, err := procs.ListenIn(ns, "tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := net.FileListener(f)
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
			_, _ = c.Write([]byte("reached"))
			c.Close()
		}
	}()
}

func TestBreakAcceptInput(t *testing.T) {
	s := brokenStage(t, Hooks{Accept: []AcceptRule{
		{CIDR: "192.0.2.1/32", Proto: "tcp", Ports: []PortRange{{First: 9999}}, Chain: "input"},
	}})
	a := box(t, s, "a")
	for _, port := range []uint16{9999, 9998} {
		answers(t, s.RouterNS(), netip.AddrPortFrom(a.Gateway4, port))
	}
	if got, _, err := exchange(a.NetNSPath, "tcp", "192.0.2.1:9999", ""); err != nil || got != "reached" {
		t.Errorf("%q, %v", got, err)
	}
	refused(t, s, "tcp", "192.0.2.1:9998")
	if v, err := readSysctl(s.router, "ipv4/ip_forward"); err != nil || v != "0" {
		t.Errorf("forwarding is %s (%v): more than one thing is broken", v, err)
	}
}

func TestBreakAcceptGuard(t *testing.T) {
	s := brokenStage(t, Hooks{Accept: []AcceptRule{{CIDR: "10.1.0.0/16", Chain: "guard"}}})
	a := box(t, s, "a")
	f, err := procs.ListenIn(s.RouterNS(), "udp", netip.AddrPortFrom(a.Gateway4, PortDNS).String())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = procs.DoIn(a.NetNSPath, func() error {
		d := net.Dialer{Control: anySource, LocalAddr: &net.UDPAddr{IP: net.IPv4(10, 1, 1, 1)}}
		out, err := d.Dial("udp", "192.0.2.1:53")
		if err != nil {
			return err
		}
		defer out.Close()
		_, err = out.Write([]byte("spoofed"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patient))
	_, from, err := c.ReadFrom(make([]byte, 64))
	if err != nil || from.(*net.UDPAddr).IP.String() != "10.1.1.1" {
		t.Errorf("from %v, %v", from, err)
	}
}

func TestBreakSkipIPv6(t *testing.T) {
	s := brokenStage(t, Hooks{SkipIPv6: true})
	startWitness(t, s)
	for _, to := range []string{"[2606:4700::1111]:443", "[fd00:ec2::254]:80", "[fd00::1]:22"} {
		reaches(t, s, "tcp", to)
		reaches(t, s, "udp", to)
	}
	refused(t, s, "tcp", "10.0.0.1:22")
	refused(t, s, "udp", "8.8.8.8:443")
}

func TestBreakNoRedirect(t *testing.T) {
	s := brokenStage(t, Hooks{NoRedirect: true})
	files, err := s.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	serveGateways(t, files)
	refused(t, s, "tcp", "1.2.3.4:80")
	refused(t, s, "udp", "[2001:db8:7::1]:53")
}

func TestBreakRejectAsDrop(t *testing.T) {
	s := brokenStage(t, Hooks{RejectAsDrop: true})
	err := procs.DoIn(box(t, s, "a").NetNSPath, func() error {
		c, err := net.DialTimeout("tcp", "10.0.0.1:22", 300*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err
	})
	if !isTimeout(err) {
		t.Errorf("%v, want silence", err)
	}
	nextDenial(t, s, func(d Denial) bool { return d.Dst.String() == "10.0.0.1:22" })
}

func TestBreakDead(t *testing.T) {
	s := brokenStage(t, Hooks{Dead: true})
	files, err := s.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	serveGateways(t, files)
	err = procs.DoIn(box(t, s, "a").NetNSPath, func() error {
		c, err := net.DialTimeout("tcp", "192.0.2.1:3128", 300*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err
	})
	if err == nil || errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a dead network answers: %v", err)
	}
}

// awaitChange waits until the filter's digest is another one.
func awaitChange(t *testing.T, s *Stage, before FilterState) {
	t.Helper()
	for deadline := time.Now().Add(patient); ; {
		st, err := s.FilterState()
		if err != nil {
			t.Fatal(err)
		}
		if st.Digest != before.Digest && st.Generation != before.Generation {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the filter does not change")
		}
	}
}

func TestBreakLateFilter(t *testing.T) {
	s := brokenStage(t, Hooks{LateFilterMs: 1500})
	startWitness(t, s)
	before, err := s.FilterState()
	if err != nil {
		t.Fatal(err)
	}
	reaches(t, s, "tcp", "10.0.0.1:22")
	reaches(t, s, "tcp", "[fd00::1]:80")
	s.Begin()
	awaitChange(t, s, before)
	refused(t, s, "tcp", "10.0.0.1:22")
	refused(t, s, "udp", "[fd00::1]:123")
}

// What was to come later than the end comes at the end, so that a filter that changes
// is never one that did not.
func TestBreakByTheEnd(t *testing.T) {
	for name, hooks := range map[string]Hooks{"late": {LateFilterMs: 3600000}, "mid-run": {MidRun: &MidRun{AfterMs: 3600000, Accept: AcceptRule{CIDR: "10.0.0.0/8"}}}} {
		t.Run(name, func(t *testing.T) {
			s := brokenStage(t, hooks)
			before, err := s.FilterState()
			if err != nil {
				t.Fatal(err)
			}
			s.Begin()
			s.End()
			after, err := s.FilterState()
			if err != nil {
				t.Fatal(err)
			}
			if after.Digest == before.Digest || after.Generation == before.Generation {
				t.Errorf("unchanged: %+v", after)
			}
		})
	}
}

func TestBreakMidRun(t *testing.T) {
	s := brokenStage(t, Hooks{MidRun: &MidRun{AfterMs: 1000, Accept: AcceptRule{CIDR: "169.254.169.254/32"}}})
	startWitness(t, s)
	before, err := s.FilterState()
	if err != nil {
		t.Fatal(err)
	}
	refused(t, s, "tcp", "169.254.169.254:8080")
	awaitChange(t, s, before)
	reaches(t, s, "tcp", "169.254.169.254:8080")
	reaches(t, s, "tcp", "169.254.169.254:80")
	refused(t, s, "tcp", "169.254.169.253:8080")
}

func TestLiveCheckCatchesABreak(t *testing.T) {
	for name, h := range map[string]Hooks{
		"everything accepted": {Accept: []AcceptRule{{CIDR: "0.0.0.0/0"}}},
		"ipv6 skipped":        {SkipIPv6: true},
		"silence":             {RejectAsDrop: true},
		"dead":                {Dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			h.LiveCheck = true
			cfg := enforcedConfig()
			cfg.Hooks = h
			if _, err := buildStage(t, cfg).VerifyInPlace(t.Context()); !errors.Is(err, ErrNotInPlace) {
				t.Errorf("verified: %v", err)
			}
		})
	}
}

func TestHooksAreChecked(t *testing.T) {
	for name, h := range map[string]Hooks{
		"cidr":     {Accept: []AcceptRule{{CIDR: "10.0.0.1"}}},
		"chain":    {Accept: []AcceptRule{{CIDR: "10.0.0.0/8", Chain: "output"}}},
		"protocol": {Accept: []AcceptRule{{CIDR: "10.0.0.0/8", Proto: "sctp"}}},
		"ports":    {Accept: []AcceptRule{{CIDR: "10.0.0.0/8", Ports: []PortRange{{First: 1}}}}},
		"mid-run":  {MidRun: &MidRun{Accept: AcceptRule{CIDR: "x"}}},
	} {
		cfg := enforcedConfig()
		cfg.Hooks = h
		if err := cfg.check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := openConfig()
	cfg.Hooks.Dead = true
	if err := cfg.check(); !errors.Is(err, ErrConfig) {
		t.Errorf("open mode: %v", err)
	}
}

// Breaks are written as files: the names of the fields are a contract.
func TestHooksFromJSON(t *testing.T) {
	var h Hooks
	text := `{"accept":[{"cidr":"10.0.0.0/8","proto":"tcp","ports":[{"first":1,"last":2}],"chain":"input"}],"skipIPv6":true,
		"noRedirect":true,"rejectAsDrop":true,"dead":true,"lateFilterMs":1,"midRun":{"afterMs":1,"accept":{"cidr":"::/0"}},"liveCheck":true}`
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	if len(h.Accept) != 1 || h.Accept[0].Ports[0].Last != 2 || !h.SkipIPv6 || !h.NoRedirect || !h.RejectAsDrop || !h.Dead ||
		h.LateFilterMs != 1 || h.MidRun.AfterMs != 1 || !h.LiveCheck {
		t.Errorf("%+v", h)
	}
}
