package boundary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/internal/procs/origdst"
)

const (
	testUID = 64999
	patient = 5 * time.Second // far above what any of this takes; never waited out when all is well
)

// The test binary is its own helper: argv[0] picks the role.
func TestMain(m *testing.M) {
	role, ok := strings.CutPrefix(os.Args[0], "boundary-test-")
	if !ok && os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests make network namespaces: run them as root")
		os.Exit(1)
	}
	if !ok {
		os.Exit(m.Run())
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

var roles = map[string]func() error{"witness": roleWitness, "send": roleSend, "builder": roleBuilder}

// roleWitness answers on the world's catch-all sockets, unprivileged, with the
// destination that it was asked at.
func roleWitness() error {
	var none struct{}
	child, err := procs.Join(&none)
	if err != nil {
		return err
	}
	for _, f := range []string{"4", "6"} {
		listeners, err := child.Listeners("any-tcp" + f)
		if err != nil {
			return err
		}
		for _, l := range listeners {
			go answerTCP(l, child)
		}
		conns, err := child.PacketConns("any-udp" + f)
		if err != nil {
			return err
		}
		for _, c := range conns {
			go answerUDP(c.(*net.UDPConn), child)
		}
	}
	for _, f := range child.Files("capture") {
		go reportFrames(f, child)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := child.Ready(true); err != nil {
		return err
	}
	<-stop
	return nil
}

func answerTCP(l net.Listener, child *procs.Child) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		dst, err := origdst.TCP(c.(*net.TCPConn))
		if err != nil {
			_ = child.Event(err.Error())
		}
		fmt.Fprint(c, dst)
		c.Close()
	}
}

func answerUDP(c *net.UDPConn, child *procs.Child) {
	buf := make([]byte, 65536)
	for {
		_, src, dst, err := origdst.ReadUDP(c, buf)
		if err == nil {
			err = origdst.ReplyUDP(context.Background(), src, dst, []byte(dst.String()))
		}
		if err != nil {
			_ = child.Event(err.Error())
			return
		}
	}
}

// reportFrames reports the payload of ICMP echo requests.
func reportFrames(f *os.File, child *procs.Child) {
	buf := make([]byte, 1<<16)
	for {
		n, err := f.Read(buf)
		if err != nil {
			_ = child.Event(err.Error())
			return
		}
		p, err := parsePacket(buf[min(14, n):n])
		if err == nil && (p.proto == unix.IPPROTO_ICMP || p.proto == unix.IPPROTO_ICMPV6) && string(p.payload) == "nonce" {
			_ = child.Event("captured " + p.dst.Addr().String() + " " + string(p.payload))
		}
	}
}

// roleSend sends one datagram and reports how that went.
func roleSend() error {
	var to string
	child, err := procs.Join(&to)
	if err != nil {
		return err
	}
	c, err := net.Dial("udp", to)
	if err == nil {
		_, err = c.Write([]byte("x"))
	}
	if err != nil {
		return child.Ready(err.Error())
	}
	return child.Ready("sent")
}

// roleBuilder builds a stage and waits to be killed.
func roleBuilder() error {
	run := os.Getenv("BOUNDARY_TEST_RUN")
	if _, err := Claim(run); err != nil {
		return err
	}
	s, err := Build(context.Background(), Config{
		Run: run, Phase: "a", Boxes: []string{"a"}, Mode: Enforced, Uplink: World, ProxyUID: testUID,
	})
	if err != nil {
		return err
	}
	_, err = s.VerifyInPlace(context.Background())
	fmt.Println("up", err)
	select {}
}

func newRun() string { return fmt.Sprintf("%08x", rand.Uint32()) }

func enforcedConfig() Config {
	return Config{Run: newRun(), Phase: "a", Boxes: []string{"a", "b"}, Mode: Enforced, Uplink: World, ProxyUID: testUID}
}

func openConfig() Config {
	cfg := enforcedConfig()
	cfg.Phase, cfg.Mode = "c", Open
	return cfg
}

// claim keeps a sweep that happens to run beside the tests away from a run.
func claim(t *testing.T, run string) {
	t.Helper()
	release, err := Claim(run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

func buildStage(t *testing.T, cfg Config) *Stage {
	t.Helper()
	claim(t, cfg.Run)
	s, err := Build(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left := namesOf(t, cfg.Run); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return s
}

// namesOf lists the namespaces of a run.
func namesOf(t *testing.T, run string) []string {
	t.Helper()
	entries, err := os.ReadDir(netnsDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.Contains(e.Name(), run) {
			names = append(names, e.Name())
		}
	}
	return names
}

func box(t *testing.T, s *Stage, name string) Box {
	t.Helper()
	b, ok := s.Box(name)
	if !ok {
		t.Fatalf("no box %s", name)
	}
	return b
}

func closeFiles(files []procs.NamedFile) {
	for _, f := range files {
		f.File.Close()
	}
}

// startWitness serves the world's catch-all sockets.
func startWitness(t *testing.T, s *Stage) <-chan string {
	t.Helper()
	files, err := s.WorldListeners()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(files)
	events := make(chan string, 64)
	p, err := procs.Start(t.Context(), procs.Spec{
		Path: procs.Self, Argv: []string{"boundary-test-witness"}, NetNS: s.WorldNS(), UID: testUID, GID: testUID,
		Files: files, Config: struct{}{}, OnEvent: func(m json.RawMessage) { events <- strings.Trim(string(m), `"`) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return events
}

// exchange connects from a box, sends if there is something to send, and
// returns what comes back and the client's own address.
func exchange(ns, network, to, send string) (got string, local netip.AddrPort, err error) {
	deadline := time.Now().Add(patient)
	err = procs.DoIn(ns, func() error {
		d := net.Dialer{Deadline: deadline, Control: func(_, addr string, c syscall.RawConn) error {
			return bindFirst(c, netip.MustParseAddrPort(addr).Addr().Is4(), &local)
		}}
		c, err := d.Dial(network, to)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(deadline)
		if _, err := c.Write([]byte(send)); err != nil {
			return err
		}
		buf := make([]byte, 512)
		n, err := c.Read(buf)
		got = string(buf[:n])
		return err
	})
	return got, local, err
}

// nextDenial waits for a record for which want returns true; the others are let
// go.
func nextDenial(t *testing.T, s *Stage, want func(Denial) bool) Denial {
	t.Helper()
	timer := time.NewTimer(patient)
	defer timer.Stop()
	for {
		select {
		case d, ok := <-s.Denials():
			if !ok {
				t.Fatal("the log of refusals is closed")
			}
			if want(d) {
				return d
			}
		case <-timer.C:
			t.Fatal("no such record in the log of refusals")
		}
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
