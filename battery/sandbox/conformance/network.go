package conformance

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Addresses of the test's link; documentation ranges.
const (
	insideAddr  = "192.0.2.2/30"
	outsideAddr = "192.0.2.1/30"
	outsideIP   = "192.0.2.1"
)

// network puts a sandbox at one end of a link and a server at the other.
func (s *suite) network(t *testing.T) {
	box, far := s.namespace(t, "box"), s.namespace(t, "far")
	s.link(t, box, far, insideAddr, outsideAddr)
	addr := s.serve(t, far)
	spec := s.spec("net")
	spec.NetNS = box
	sb := s.start(t, spec)
	if got := must(t, sb, "dial", addr); got != "hello from the other end" {
		t.Errorf("read %q", got)
	}
	if got := must(t, sb, "interfaces"); !strings.Contains(got, "wp0") {
		t.Errorf("interfaces: %q", got)
	}
}

func (s *suite) loopbackOnly(t *testing.T) {
	sb := s.start(t, s.spec("lo"))
	if got := strings.Fields(must(t, sb, "interfaces")); len(got) != 1 || got[0] != "lo" {
		t.Errorf("interfaces: %q", got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r := try(t, sb, nil, "dial", l.Addr().String()); r.exit == 0 {
		t.Error("the host's loopback is reached")
	}
}

// namespace makes a named network namespace and returns its path.
func (s *suite) namespace(t *testing.T, name string) string {
	t.Helper()
	full := "wallproof-" + s.run + "-t-" + name
	inNamespace(t, "", func() error {
		ns, err := netns.NewNamed(full)
		if err != nil {
			return err
		}
		return ns.Close()
	})
	t.Cleanup(func() {
		if err := netns.DeleteNamed(full); err != nil {
			t.Error(err)
		}
	})
	return "/run/netns/" + full
}

// inNamespace runs f on a thread in a namespace ("" for the test's own), and
// the thread ends with it.
func inNamespace(t *testing.T, path string, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is not used again
		if path != "" {
			ns, err := netns.GetFromPath(path)
			if err == nil {
				err = netns.Set(ns)
				ns.Close()
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// link joins two namespaces by a pair of interfaces called wp0.
func (s *suite) link(t *testing.T, a, b, addrA, addrB string) {
	t.Helper()
	other, err := netns.GetFromPath(b)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	inNamespace(t, a, func() error {
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wp0"}, PeerName: "wp0", PeerNamespace: netlink.NsFd(other)})
		if err != nil {
			return fmt.Errorf("add link: %w", err)
		}
		return bringUp(addrA)
	})
	inNamespace(t, b, func() error { return bringUp(addrB) })
}

func bringUp(addr string) error {
	for _, name := range []string{"lo", "wp0"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		if name == "lo" {
			continue
		}
		a, err := netlink.ParseAddr(addr)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return err
		}
	}
	return nil
}

// serve listens in a namespace until the test ends.
func (s *suite) serve(t *testing.T, ns string) string {
	t.Helper()
	var l net.Listener
	inNamespace(t, ns, func() (err error) {
		l, err = net.Listen("tcp", outsideIP+":0")
		return err
	})
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "hello from the other end")
			c.Close()
		}
	}()
	if _, err := os.Stat(ns); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
