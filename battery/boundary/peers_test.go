package boundary

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

func peersConfig() Config {
	cfg := enforcedConfig()
	cfg.Boxes, cfg.Uplink = []string{"a", "b", "db"}, None
	cfg.Peers = []Peer{{Service: "db", From: []string{"a"}, Ports: []uint16{5432, 80}}}
	return cfg
}

// greetIn answers every connection to a port in a box with its number.
func greetIn(t *testing.T, b Box, port uint16) {
	t.Helper()
	f, err := procs.ListenIn(b.NetNSPath, "tcp", fmt.Sprintf("0.0.0.0:%d", port))
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
			_, _ = c.Read(make([]byte, 64))
			fmt.Fprintf(c, "service %d", port)
			c.Close()
		}
	}()
}

// A service is reached by the boxes that may, at its ports, and by nothing else;
// it begins nothing.
func TestPeersReachAServiceAndNothingElseDoes(t *testing.T) {
	s := buildStage(t, peersConfig())
	if _, err := s.VerifyInPlace(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := s.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(files)
	a, b, db := box(t, s, "a"), box(t, s, "b"), box(t, s, "db")
	for _, port := range []uint16{5432, 80, 9999} {
		greetIn(t, db, port)
		greetIn(t, a, port)
	}
	at := func(x netip.Addr, port uint16) string { return netip.AddrPortFrom(x, port).String() }
	for _, port := range []uint16{5432, 80} {
		if got, _, err := exchange(a.NetNSPath, "tcp", at(db.IPv4, port), "hello"); err != nil || got != fmt.Sprintf("service %d", port) {
			t.Errorf("a to the service's port %d: %q, %v", port, got, err)
		}
	}
	for _, tt := range []struct {
		name        string
		from        Box
		network, to string
	}{
		{"another port", a, "tcp", at(db.IPv4, 9999)},
		{"over UDP", a, "udp", at(db.IPv4, 5432)},
		{"over IPv6", a, "tcp", at(db.IPv6, 5432)},
		{"the service's gateway", a, "tcp", at(db.Gateway4, PortProxy)},
		{"a box that may not", b, "tcp", at(db.IPv4, 5432)},
		{"a box that may not, at 853", b, "tcp", at(db.IPv4, 853)},
		{"the service to its client", db, "tcp", at(a.IPv4, 5432)},
		{"the service to another box", db, "tcp", at(b.IPv4, 5432)},
		{"the service to a proxy", db, "tcp", at(db.Gateway4, PortProxy)},
		{"the service to a client's proxy", db, "tcp", at(a.Gateway4, PortProxy)},
		{"the service to a resolver", db, "udp", at(db.Gateway4, PortDNS)},
		{"the service to the internet", db, "tcp", "93.184.216.34:443"},
		{"the service to the internet in clear", db, "tcp", "93.184.216.34:80"},
		{"the service to the internet over IPv6", db, "tcp", "[2606:4700::1111]:443"},
		{"the service to any resolver", db, "udp", "8.8.8.8:53"},
	} {
		_, local, err := exchange(tt.from.NetNSPath, tt.network, tt.to, "hello")
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %v, want a refusal", tt.name, err)
			continue
		}
		if d := nextDenial(t, s, func(d Denial) bool { return d.Src.Port() == local.Port() && d.Proto == tt.network }); d.Dst.String() != tt.to || d.Box != tt.from.Name {
			t.Errorf("%s: recorded %+v", tt.name, d)
		}
	}
}

func TestPeersAreChecked(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"open mode":               func(c *Config) { c.Mode, c.Uplink = Open, World },
		"no such service":         func(c *Config) { c.Peers[0].Service = "none" },
		"no such client":          func(c *Config) { c.Peers[0].From = []string{"none"} },
		"nobody":                  func(c *Config) { c.Peers[0].From = nil },
		"no port":                 func(c *Config) { c.Peers[0].Ports = nil },
		"port 0":                  func(c *Config) { c.Peers[0].Ports = []uint16{0} },
		"itself":                  func(c *Config) { c.Peers[0].From = []string{"db"} },
		"reached by a service":    func(c *Config) { c.Peers = append(c.Peers, Peer{"b", []string{"db"}, []uint16{1}}) },
		"the same service, twice": func(c *Config) { c.Peers = append(c.Peers, c.Peers[0]) },
	} {
		cfg := peersConfig()
		edit(&cfg)
		if err := cfg.check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
