package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is its own child: argv[0] picks the role.
func TestMain(m *testing.M) {
	role, ok := strings.CutPrefix(os.Args[0], "procs-test-")
	if !ok {
		os.Exit(m.Run())
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

var roles = map[string]func() error{
	"status":    roleStatus,
	"echo":      roleEcho,
	"silent":    roleSilent,
	"crash":     roleCrash,
	"fail":      roleFail,
	"stubborn":  roleStubborn,
	"garbage":   roleGarbage,
	"longline":  roleLongLine,
	"twice":     roleTwice,
	"parent":    roleParent,
	"early":     roleEarly,
	"strict":    roleStrict,
	"flood":     roleFlood,
	"noisy":     roleNoisy,
	"holdsPipe": roleHoldsPipe,
	"sleeper":   roleSleeper,
}

type config struct {
	Text string
}

// facts is what a child can tell about itself.
type facts struct {
	Text   string
	Status map[string]string
	NetNS  string
	Env    []string
	Dir    string
	FDs    []string
	Core   syscall.Rlimit
}

func roleStatus() error {
	core := syscall.Rlimit{}
	// Before Join, which sets the limit itself: this is what the parent did. The
	// configuration is read first, because the parent sends it only afterwards.
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &core); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	if _, err := w.Write(in); err != nil {
		return err
	}
	w.Close()
	os.Stdin = r
	var c config
	child, err := Join(&c)
	if err != nil {
		return err
	}
	f := facts{Text: c.Text, Env: os.Environ(), Core: core, Status: procStatus()}
	f.NetNS, _ = os.Readlink("/proc/self/ns/net")
	f.Dir, _ = os.Getwd()
	return child.Ready(f)
}

func procStatus() map[string]string {
	b, _ := os.ReadFile("/proc/self/status")
	m := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m
}

// roleEcho serves its sockets until it is told to stop.
func roleEcho() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	listeners, err := child.Listeners("tcp")
	if err != nil {
		return err
	}
	conns, err := child.PacketConns("udp")
	if err != nil {
		return err
	}
	for _, l := range listeners {
		go acceptAll(l, child)
	}
	for _, c := range conns {
		go echoAll(c)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := child.Ready(len(listeners) + len(conns)); err != nil {
		return err
	}
	<-stop
	return nil
}

func acceptAll(l net.Listener, child *Child) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = child.Event(c.RemoteAddr().String())
		_, _ = c.Write([]byte("hello"))
		c.Close()
	}
}

func echoAll(c net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(buf[:n], from)
	}
}

func roleSilent() error {
	if _, err := Join(&config{}); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func roleCrash() error { panic("out of cheese") }

func roleFail() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	return child.Fail(fmt.Errorf("no certificate"))
}

func roleStubborn() error {
	signal.Ignore(syscall.SIGTERM)
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	if err := child.Ready(true); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func roleGarbage() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	if err := child.Ready(true); err != nil {
		return err
	}
	fmt.Println("panic: not a message")
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func roleLongLine() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	if err := child.Ready(true); err != nil {
		return err
	}
	fmt.Printf(`{"event":"%s"}`+"\n", bytes.Repeat([]byte("x"), MaxLine))
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func roleTwice() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	_ = child.Ready(1)
	_ = child.Ready(2)
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func roleEarly() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	_ = child.Event("too soon")
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func roleStrict() error {
	_, err := Join(&struct{ Other string }{})
	return err
}

func roleFlood() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	if err := child.Ready(true); err != nil {
		return err
	}
	for i := range 2000 {
		if err := child.Event(i); err != nil {
			return err
		}
	}
	return nil
}

func roleNoisy() error {
	fmt.Fprint(os.Stderr, "first words ", strings.Repeat("noise ", 20_000), " last words")
	os.Exit(4)
	return nil
}

// roleHoldsPipe ends but leaves a descendant that holds its standard output.
func roleHoldsPipe() error {
	child, err := Join(&config{})
	if err != nil {
		return err
	}
	attr := &os.ProcAttr{Files: []*os.File{nil, os.Stdout, nil}}
	p, err := os.StartProcess(Self, []string{"procs-test-sleeper"}, attr)
	if err != nil {
		return err
	}
	return child.Ready(p.Pid)
}

func roleSleeper() error {
	time.Sleep(time.Minute)
	return nil
}

// roleParent starts a child of its own, reports its pid and waits to be killed.
func roleParent() error {
	dir := os.Getenv("PROCS_TEST_DIR")
	p, err := Start(context.Background(), spec("silentReady"))
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "pid.tmp")
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%d", p.Pid()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, "pid")); err != nil {
		return err
	}
	fmt.Println("up")
	for {
		time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
	}
}

func init() {
	roles["silentReady"] = func() error {
		child, err := Join(&config{})
		if err != nil {
			return err
		}
		if err := child.Ready(true); err != nil {
			return err
		}
		for {
			time.Sleep(time.Hour) // a timer, because a program without any is ended as deadlocked
		}
	}
}

const testUID, testGID = 64999, 64998

func spec(role string) Spec {
	return Spec{
		Path:         Self,
		Argv:         []string{"procs-test-" + role},
		UID:          testUID,
		GID:          testGID,
		Config:       config{Text: "größe"},
		ReadyTimeout: 20 * time.Second,
	}
}

func start(t *testing.T, s Spec) *Proc {
	t.Helper()
	p, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

func decode[T any](t *testing.T, b json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("decode %s: %v", b, err)
	}
	return v
}
