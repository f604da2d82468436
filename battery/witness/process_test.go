package witness_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
)

// helperRole makes the test binary the witness itself.
const helperRole = "witness-test-helper"

func TestMain(m *testing.M) {
	if os.Args[0] == helperRole {
		if err := witness.Main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests make network namespaces: run them as root")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var processKey = []byte("fedcba9876543210fedcba9876543210")

func processNonce(n int) string {
	return nonce.New(processKey, "run", "P-"+strconv.Itoa(n), "default", nonce.PhaseControl)
}

// scene is an open boundary with both witnesses behind it.
type scene struct {
	t     *testing.T
	box   boundary.Box
	world *witness.Process
	open  *witness.Process
}

func newScene(t *testing.T, change func(*witness.Config)) *scene {
	t.Helper()
	var raw [4]byte
	if _, err := rand.Read(raw[:]); err != nil {
		t.Fatal(err)
	}
	stage, err := boundary.Build(t.Context(), boundary.Config{
		Run: hex.EncodeToString(raw[:]), Phase: "c", Boxes: []string{"a"}, Mode: boundary.Open, Uplink: boundary.World, SOCKS: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	box, ok := stage.Box("a")
	if !ok {
		t.Fatal("no box")
	}
	ca, err := witness.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cfg := witness.Config{Role: witness.RoleWorld, Run: "run", Phase: nonce.PhaseControl, NonceKey: hex.EncodeToString(processKey), CA: ca}
	for i := range 50 {
		cfg.Nonces = append(cfg.Nonces, processNonce(i))
	}
	if change != nil {
		change(&cfg)
	}
	s := &scene{t: t, box: box}
	files, err := stage.WorldListeners()
	s.world = s.start(cfg, stage.WorldNS(), files, err)
	cfg.Role, cfg.Open = witness.RoleOpenProxy, witness.OpenProxy{}
	files, err = stage.Listeners()
	s.open = s.start(cfg, stage.RouterNS(), files, err)
	return s
}

// start starts one of the two in its namespace, with the boundary's sockets.
func (s *scene) start(cfg witness.Config, ns string, files []procs.NamedFile, err error) *witness.Process {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	l := witness.Launch{Argv: []string{helperRole}, NetNS: ns, Config: cfg}
	kinds := map[string]witness.SocketKind{
		"any-tcp4": witness.SocketTCP, "any-tcp6": witness.SocketTCP, "any-udp4": witness.SocketUDP, "any-udp6": witness.SocketUDP, "capture": witness.SocketCapture,
		"proxy": witness.SocketProxy, "socks": witness.SocketProxy, "dns-udp": witness.SocketDNSUDP, "dns-tcp": witness.SocketDNSTCP,
	}
	for _, f := range files {
		defer f.File.Close()
		l.Config.Sockets = append(l.Config.Sockets, witness.Socket{Kind: kinds[f.Name], FD: len(l.Files)})
		l.Files = append(l.Files, f.File)
	}
	p, err := witness.Start(s.t.Context(), l)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			s.t.Error(err)
		}
		if f := p.Failures(); len(f) > 0 || p.Dropped() != 0 {
			s.t.Errorf("failures %q, %d dropped", f, p.Dropped())
		}
	})
	return p
}

// inBox opens a connection from inside the box.
func (s *scene) inBox(network, address string) net.Conn {
	s.t.Helper()
	var c net.Conn
	err := procs.DoIn(s.box.NetNSPath, func() (err error) {
		c, err = net.Dial(network, address)
		return err
	})
	if err != nil {
		s.t.Fatalf("%s %s: %v", network, address, err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// say sends a text and wants the proof of a nonce back.
func (s *scene) say(network, address, text string, n int) {
	s.t.Helper()
	c := s.inBox(network, address)
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	got := 0
	for nonce.FindProof(buf[:got]) != nonce.Proof(processKey, processNonce(n)) {
		k, err := c.Read(buf[got:])
		if err != nil {
			s.t.Errorf("%s %s: %q, %v: no proof", network, address, buf[:got], err)
			return
		}
		got += k
	}
}

// services are where a nonce arrived, the destination with each.
func (s *scene) services(p *witness.Process, n int) []string {
	s.t.Helper()
	if err := p.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, o := range p.Observations() {
		if o.Nonce == processNonce(n) {
			out = append(out, o.Service+" "+o.Proto+" "+o.Dest)
		}
	}
	slices.Sort(out)
	return out
}

func TestEveryAddressAnswers(t *testing.T) {
	s := newScene(t, nil)
	get := func(n int) string { return "GET /" + processNonce(n) + " HTTP/1.1\r\nHost: x\r\n\r\n" }
	tests := []struct {
		network, address, text, want string
	}{
		{"tcp", "1.2.3.4:80", "HTTP", "collector http 1.2.3.4:80"},
		{"tcp", "169.254.169.254:80", "HTTP", "metadata http 169.254.169.254:80"},
		{"tcp", "192.168.7.7:10250", "HTTP", "private http 192.168.7.7:10250"},
		{"tcp", "[fd00:ec2::254]:80", "HTTP", "metadata http [fd00:ec2::254]:80"},
		{"tcp", "[2606:4700::1111]:4444", "LINE", "collector tcp [2606:4700::1111]:4444"},
		{"udp", "8.8.8.8:4445", "LINE", "udp udp 8.8.8.8:4445"},
		{"udp", "8.8.8.8:443", "LINE", "udp udp 8.8.8.8:443"},
		{"udp", "[2606:4700::1111]:123", "LINE", "udp udp [2606:4700::1111]:123"},
		{"udp", "10.0.0.9:1", "LINE", "private udp 10.0.0.9:1"},
	}
	for i, tc := range tests {
		text := get(i)
		if tc.text == "LINE" {
			text = processNonce(i) + "\n"
		}
		s.say(tc.network, tc.address, text, i)
	}
	for i, tc := range tests {
		// The capture saw every one of these packets, too, and adds nothing.
		if got := s.services(s.world, i); !slices.Equal(got, []string{tc.want}) {
			t.Errorf("%s %s arrived at %q, want %q", tc.network, tc.address, got, tc.want)
		}
	}
}

func TestCaptureOnTheWire(t *testing.T) {
	const lonely4, lonely6 = "99.64.7.7", "2a0d:5600::7"
	s := newScene(t, func(c *witness.Config) {
		c.AddrNonces = map[string]string{lonely4: processNonce(3), lonely6: processNonce(4)}
	})
	raw := func(network, to string, b []byte) {
		c := s.inBox(network, to)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	echo := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, processNonce(0)...)
	raw("ip4:icmp", "9.9.9.9", echo)
	raw("ip4:132", "9.9.9.9", []byte(processNonce(1))) // SCTP's number
	raw("ip6:ipv6-icmp", "2620:fe::fe", append([]byte{128, 0, 0, 0, 0, 1, 0, 1}, processNonce(2)...))
	raw("ip4:253", lonely4, []byte("no mark")) // experimental (RFC 3692)
	s.inBox("tcp", "["+lonely6+"]:80")         // no payload at all
	for n, want := range []string{
		"icmp icmp 9.9.9.9:0", "capture other 9.9.9.9:0", "icmp icmp6 [2620:fe::fe]:0", "capture other " + lonely4 + ":0", "collector tcp [" + lonely6 + "]:80",
	} {
		if got := s.services(s.world, n); !slices.Equal(got, []string{want}) {
			t.Errorf("nonce %d arrived at %q, want %q", n, got, want)
		}
	}
}

func TestOpenProxyOnTheWire(t *testing.T) {
	s := newScene(t, func(c *witness.Config) { c.Hosts = map[string]string{"api.allowed.example": witness.HostAllowed} })
	for i, gateway := range []netip.Addr{s.box.Gateway4, s.box.Gateway6} {
		proxy := netip.AddrPortFrom(gateway, boundary.PortProxy).String()
		s.say("tcp", proxy, "GET http://api.allowed.example/"+processNonce(10+i)+" HTTP/1.1\r\nHost: api.allowed.example\r\n\r\n", 10+i)
		want := "allowed http " + addr.Host4("api.allowed.example").String() + ":80"
		if got := s.services(s.world, 10+i); !slices.Contains(got, want) {
			t.Errorf("by %s arrived at %q, want %q", proxy, got, want)
		}
		s.say("tcp", proxy, "GET /"+processNonce(20+i)+" HTTP/1.1\r\nHost: x\r\n\r\n", 20+i)
		if got := s.services(s.open, 20+i); len(got) != 1 || !strings.HasPrefix(got[0], paths.ServiceProxy+" http ") {
			t.Errorf("own page recorded as %q", got)
		}
		socks := netip.AddrPortFrom(gateway, boundary.PortSOCKS).String()
		s.say("tcp", socks, "\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x07\x00\x50"+"GET /"+processNonce(30+i)+" HTTP/1.1\r\nHost: x\r\n\r\n", 30+i)
		if got := s.services(s.world, 30+i); !slices.Equal(got, []string{"private http 10.0.0.7:80"}) {
			t.Errorf("by SOCKS arrived at %q", got)
		}
	}
}

func TestStopTellsAll(t *testing.T) {
	s := newScene(t, nil)
	s.say("udp", "8.8.8.8:9", processNonce(1), 1)
	c := s.inBox("tcp", "8.8.8.8:80") // a connection that is in the middle of something
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"+processNonce(2)); err != nil {
		t.Fatal(err)
	}
	if err := s.world.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.world.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.world.Done():
	default:
		t.Error("Stop came back before the end")
	}
	got := map[string]bool{}
	for _, o := range s.world.Observations() {
		got[o.Nonce] = true
	}
	if !got[processNonce(1)] || !got[processNonce(2)] {
		t.Errorf("observations %+v", s.world.Observations())
	}
	if err := s.world.Sync(t.Context()); err == nil {
		t.Error("a stopped witness was synced")
	}
}

func TestStartRefuses(t *testing.T) {
	cfg := witness.Config{Role: witness.RoleWorld, NonceKey: hex.EncodeToString(processKey)}
	for name, change := range map[string]func(*witness.Config){
		"no role":        func(c *witness.Config) { c.Role = "" },
		"short key":      func(c *witness.Config) { c.NonceKey = "00" },
		"no nonce":       func(c *witness.Config) { c.Nonces = []string{"x"} },
		"unknown role":   func(c *witness.Config) { c.Hosts = map[string]string{"a": "b"} },
		"upper case":     func(c *witness.Config) { c.Hosts = map[string]string{"A": witness.HostAllowed} },
		"no address":     func(c *witness.Config) { c.Resolve = map[string][]string{"a": {"b"}} },
		"missing socket": func(c *witness.Config) { c.Sockets = []witness.Socket{{Kind: witness.SocketTCP, FD: 3}} },
		"bad app key":    func(c *witness.Config) { c.Forge.Apps = []witness.App{{ID: "1", PublicKeyPEM: "x"}} },
	} {
		t.Run(name, func(t *testing.T) {
			c := cfg
			change(&c)
			p, err := witness.Start(t.Context(), witness.Launch{Argv: []string{helperRole}, Config: c})
			if err == nil {
				_ = p.Stop(context.Background())
				t.Error("it started")
			}
		})
	}
}
