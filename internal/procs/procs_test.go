package procs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// newNetNS makes a named network namespace with loopback up.
func newNetNS(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("procs-test-%08x", rand.Uint32())
	err := onThread(func() error {
		h, err := netns.NewNamed(name)
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.DeleteNamed(name); err != nil {
			t.Error(err)
		}
	})
	return "/run/netns/" + name
}

func TestChildHasNothingButWhatItWasGiven(t *testing.T) {
	ns := newNetNS(t)
	t.Setenv("SECRET_OF_THE_PARENT", "x")
	s := spec("status")
	s.NetNS, s.Env = ns, []string{"A=b"}
	p := start(t, s)
	f := decode[facts](t, p.Ready())
	if f.Text != "größe" {
		t.Errorf("configuration: %q", f.Text)
	}
	want := map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Groups": "",
		"Uid": "64999\t64999\t64999\t64999", "Gid": "64998\t64998\t64998\t64998",
	}
	for k, v := range want {
		if f.Status[k] != v {
			t.Errorf("%s: %q, want %q", k, f.Status[k], v)
		}
	}
	if f.Core != (syscall.Rlimit{}) {
		t.Errorf("RLIMIT_CORE before Join: %+v", f.Core)
	}
	if got, want := strings.Join(f.Env, " "), "A=b WALLPROOF_FDNAMES="; got != want {
		t.Errorf("environment %q, want %q", got, want)
	}
	if f.Dir != "/" {
		t.Errorf("working directory %q", f.Dir)
	}
	if want := nsID(t, ns); f.NetNS != want {
		t.Errorf("network namespace %s, want %s", f.NetNS, want)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("end: %v", err)
	}
}

func nsID(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("net:[%d]", st.Ino)
}

func TestParentIsUnchanged(t *testing.T) {
	before := threadState(t)
	ns := newNetNS(t)
	s := spec("status")
	s.NetNS = ns
	start(t, s)
	for range 50 { // whichever threads the runtime hands out
		if got := threadState(t); got != before {
			t.Fatalf("thread state changed:\n%s\nwas\n%s", got, before)
		}
	}
}

func threadState(t *testing.T) string {
	t.Helper()
	out := make(chan string)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		link, _ := os.Readlink("/proc/thread-self/ns/net")
		b, _ := os.ReadFile("/proc/thread-self/status")
		var keep []string
		for line := range strings.Lines(string(b)) {
			if k, _, _ := strings.Cut(line, ":"); strings.HasPrefix(k, "Cap") || k == "Uid" || k == "Gid" || k == "NoNewPrivs" {
				keep = append(keep, line)
			}
		}
		out <- link + "\n" + strings.Join(keep, "")
	}()
	return <-out
}

func TestSocketsHandedOver(t *testing.T) {
	ns := newNetNS(t)
	s := spec("echo") // stays in the caller's namespace; its sockets are elsewhere
	for _, l := range []struct{ name, network, addr string }{
		{"tcp", "tcp4", "127.0.0.1:3128"}, {"tcp", "tcp6", "[::1]:3128"},
		{"udp", "udp4", "127.0.0.1:53"}, {"udp", "udp6", "[::1]:53"},
	} {
		f, err := ListenIn(ns, l.network, l.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s.Files = append(s.Files, NamedFile{l.name, f})
	}
	events := make(chan string, 8)
	s.OnEvent = func(m json.RawMessage) { events <- string(m) }
	p := start(t, s)
	if n := decode[int](t, p.Ready()); n != 4 {
		t.Fatalf("%d sockets arrived", n)
	}
	for _, addr := range []string{"127.0.0.1", "[::1]"} {
		client := dialAndRead(t, ns, "tcp", addr+":3128", "")
		if ev := <-events; ev != `"`+client+`"` {
			t.Errorf("event %s, want %s", ev, client)
		}
		dialAndRead(t, ns, "udp", addr+":53", "hello")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// dialAndRead connects inside ns, sends, expects "hello", and returns its own address.
func dialAndRead(t *testing.T, ns, network, addr, send string) string {
	t.Helper()
	var local string
	err := DoIn(ns, func() error {
		c, err := net.DialTimeout(network, addr, 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		local = c.LocalAddr().String()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.WriteString(c, send); err != nil {
			return err
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(c, buf); err != nil {
			return err
		}
		if string(buf) != "hello" {
			return fmt.Errorf("read %q", buf)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s %s: %v", network, addr, err)
	}
	return local
}

func TestStartFails(t *testing.T) {
	tests := []struct {
		role string
		is   error
		text string
	}{
		{"silent", ErrNotReady, "nothing after"},
		{"crash", ErrNotReady, "out of cheese"},
		{"fail", ErrNotReady, "no certificate"},
		{"early", ErrProtocol, "event before ready"},
		{"strict", ErrNotReady, `unknown field "Text"`},
		{"noisy", ErrNotReady, "bytes left out"},
	}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			s := spec(tt.role)
			if tt.role == "silent" {
				s.ReadyTimeout = 300 * time.Millisecond
			}
			_, err := Start(t.Context(), s)
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.is, tt.text)
			}
		})
	}
}

func TestStartIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, spec("silent")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
}

func TestStderrKeepsBeginningAndEnd(t *testing.T) {
	_, err := Start(t.Context(), spec("noisy"))
	if err == nil || !strings.Contains(err.Error(), "first words") || !strings.Contains(err.Error(), "last words") {
		t.Fatalf("error %v", err)
	}
	if n := len(err.Error()); n > maxStderrHead+maxStderrTail+1000 {
		t.Errorf("%d bytes kept", n)
	}
}

func TestFaultsAfterReady(t *testing.T) {
	for _, role := range []string{"garbage", "longline", "twice"} {
		t.Run(role, func(t *testing.T) {
			p := start(t, spec(role))
			if err := p.Wait(); role != "garbage" && !errors.Is(err, ErrProtocol) || err == nil {
				t.Errorf("end: %v", err)
			}
		})
	}
}

func TestEventsAllArriveInOrder(t *testing.T) {
	var next atomic.Int64
	s := spec("flood")
	s.OnEvent = func(m json.RawMessage) {
		if n, err := strconv.ParseInt(string(m), 10, 64); err != nil || !next.CompareAndSwap(n, n+1) {
			t.Errorf("event %s out of order", m)
		}
	}
	p := start(t, s)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if next.Load() != 2000 {
		t.Errorf("%d events", next.Load())
	}
}

func TestStopKillsTheStubborn(t *testing.T) {
	s := spec("stubborn")
	s.StopGrace = 200 * time.Millisecond
	p := start(t, s)
	if err := p.Stop(t.Context()); !errors.Is(err, ErrKilled) {
		t.Fatalf("stop: %v", err)
	}
	select {
	case <-p.Done():
	default:
		t.Fatal("stopped but not done")
	}
	if err := p.Stop(t.Context()); err == nil {
		t.Fatal("a second stop hides how the process ended")
	}
}

func TestDescendantHoldingThePipeIsNotWaitedFor(t *testing.T) {
	p := start(t, spec("holdsPipe"))
	t.Cleanup(func() { _ = syscall.Kill(decode[int](t, p.Ready()), syscall.SIGKILL) })
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(Self)
	parent.Args = []string{"procs-test-parent"}
	parent.Env = []string{"PROCS_TEST_DIR=" + dir}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("child %d is gone before its parent: %v", pid, err)
	}
	defer unix.Close(fd)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000); n != 1 {
		t.Fatalf("child %d outlived its parent (%v)", pid, err)
	}
}

// A garbage collection or an idle spell must not end the thread that forked.
func TestChildOutlivesIdleThreads(t *testing.T) {
	p := start(t, spec("echo"))
	for range 20 {
		runtime.GC()
		done := make(chan struct{})
		go func() { runtime.LockOSThread(); close(done) }() // ends a thread
		<-done
	}
	select {
	case <-p.Done():
		t.Fatalf("child ended: %v", p.Wait())
	default:
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSpecIsChecked(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Spec)
	}{
		{"relative path", func(s *Spec) { s.Path = "wallproof" }},
		{"no argv", func(s *Spec) { s.Argv = nil }},
		{"root", func(s *Spec) { s.UID = 0 }},
		{"root group", func(s *Spec) { s.GID = 0 }},
		{"file name", func(s *Spec) { s.Files = []NamedFile{{"a:b", os.Stdin}} }},
		{"nil file", func(s *Spec) { s.Files = []NamedFile{{"a", nil}} }},
		{"reserved variable", func(s *Spec) { s.Env = []string{fdNamesVar + "=x"} }},
		{"configuration", func(s *Spec) { s.Config = func() {} }},
		{"namespace", func(s *Spec) { s.NetNS = "/run/netns/procs-test-there-is-none" }},
		{"executable", func(s *Spec) { s.Path = "/nonexistent" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := spec("status")
			tt.edit(&s)
			if p, err := Start(t.Context(), s); err == nil {
				_ = p.Stop(t.Context())
				t.Error("accepted")
			}
		})
	}
}

func TestDoInReportsErrors(t *testing.T) {
	ns := newNetNS(t)
	want := errors.New("of fn")
	if err := DoIn(ns, func() error { return want }); err != want {
		t.Errorf("error %v", err)
	}
	if _, err := ListenIn(ns, "unix", "/x"); err == nil {
		t.Error("unix socket accepted")
	}
	if _, err := ListenIn(ns, "tcp", netip.MustParseAddrPort("192.0.2.200:1").String()); err == nil {
		t.Error("listened on an address that is not there")
	}
}
