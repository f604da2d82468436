package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
	"github.com/wallproof/wallproof/probes/plant"
	"github.com/wallproof/wallproof/probes/planter"
	"golang.org/x/sys/unix"
)

// The tests run the program itself: this binary, told by a variable to be it.
const beProgram = "WALLPROOF_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" || os.Args[len(os.Args)-1] == planter.HoldArgument || kit.IsChild(os.Args[1:]) {
		main()
		return
	}
	os.Exit(m.Run())
}

var key = strings.Repeat("0a", probes.MinKeyBytes)

// command is the program with arguments, to be run in the network namespace of
// the tests' own thread.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{beProgram + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"bogus"}, {"run", "extra"}} {
		out, err := command(args...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "usage: wallproof-probe") {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
}

func TestRun(t *testing.T) {
	n := nonce.New([]byte("k"), "run", "TOK-NETRC", "default", "")
	input, err := json.Marshal(probes.Plan{Key: key, Items: []probes.Item{{Technique: "TOK-NETRC", Variant: "default", Nonce: n}, {Technique: "NO-SUCH", Variant: "x", Nonce: nonce.New([]byte("k"), "", "", "", "")}}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("run")
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := probes.NewReader(bytes.NewReader(out), key)
	if err != nil {
		t.Fatal(err)
	}
	signs := map[string]string{}
	for {
		o, err := r.Next()
		if err != nil {
			break
		}
		signs[o.Nonce] = o.Sign
	}
	if len(signs) != 2 || signs[n] == "" || r.Stats().Ignored() != 0 {
		t.Errorf("%v, %+v", signs, r.Stats())
	}
	cmd = command("run")
	cmd.Stdin = strings.NewReader("{}")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "result key") {
		t.Errorf("a plan without a key: %v, %q", err, out)
	}
}

func TestFacts(t *testing.T) {
	out, err := command("facts").Output()
	if err != nil {
		t.Fatal(err)
	}
	var facts map[string]string
	if err := json.Unmarshal(out, &facts); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel", "uid", "seccomp", "noNewPrivs", "capEff", "capBnd", "lsm", "uidMap", "mounts", "devices", "rawSocket", "ping", "procMem", "ioUring", "vsock", "userNamespace", "messageQueues", "mount", "mknod", "bpf", "perfEvents", "userfaultfd", "openByHandle", "moduleLoad", "keyring"} {
		if facts[name] == "" {
			t.Errorf("no fact %s", name)
		}
	}
	if facts["uid"] != fmt.Sprint(os.Getuid()) {
		t.Errorf("uid %q", facts["uid"])
	}
}

// isolated gives a command a network namespace, so that its abstract sockets are
// its own.
func isolated(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	return cmd
}

// start starts a command and returns its input and the first line of its output.
func start(t *testing.T, cmd *exec.Cmd, input any) (line []byte, rest io.Reader) {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	if _, err := in.Write(append(raw, '\n')); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(out)
	if line, err = br.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	return line, br
}

// Without a first process of ours, seed plants by itself, holds, and takes its
// processes with it when it ends.
func TestSeed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "file")
	line, _ := start(t, isolated(command("seed")), plant.Seed{
		Files:     []plant.File{{Path: file, Content: "planted"}, {Path: "/proc/none/x"}},
		Processes: []plant.Process{{Name: "wallproof-test-process", Args: []string{"--a"}, Env: []string{"A=1"}}},
	})
	var ready plant.Ready
	if err := json.Unmarshal(line, &ready); err != nil || !ready.Ready || ready.Planted != 2 || len(ready.Failed) != 1 || !strings.HasPrefix(ready.Failed[0], "file /proc/none/x") {
		t.Errorf("%s, %v", line, err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "planted" {
		t.Errorf("%q, %v", b, err)
	}
}

// The neighbour answers a nonce with its proof and its own text, over TCP, UDP and
// a Unix socket, and reports each arrival.
func TestServe(t *testing.T) {
	n := nonce.New([]byte("k"), "run", "TEN-TCP", "direct-v4", "")
	secret := canary.Derive([]byte("tenant"))
	ports := freePorts(t)
	socket := fmt.Sprintf("@wallproof-test-%d", os.Getpid())
	line, rest := start(t, command("serve"), plant.Serve{
		Key: key, Answer: secret, Proofs: map[string]string{n: "0123456789abcdef"},
		Listen: []string{"tcp:127.0.0.1:" + ports[0], "udp:127.0.0.1:" + ports[1], "unix:" + socket},
	})
	if !bytes.Contains(line, []byte(`"ready":true`)) {
		t.Fatalf("%s", line)
	}
	for _, q := range []struct{ network, address, question, answer string }{
		{"tcp", "127.0.0.1:" + ports[0], n + "\n", nonce.AnswerPrefix + "0123456789abcdef\n" + secret + "\n"},
		{"tcp", "127.0.0.1:" + ports[0], "GET /" + n + " HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
		{"udp", "127.0.0.1:" + ports[1], n, nonce.AnswerPrefix + "0123456789abcdef\n" + secret + "\n"},
		{"unix", socket, n + "\n", nonce.AnswerPrefix + "0123456789abcdef\n" + secret + "\n"},
	} {
		c, err := net.Dial(q.network, q.address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, q.question)
		b := make([]byte, len(q.answer))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != q.answer {
			t.Errorf("%s %q: %q, %v", q.network, q.question, b, err)
		}
		c.Close()
	}
	r, err := probes.NewReader(rest, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, proto := range []string{"tcp", "tcp", "udp", "unix"} {
		o, err := r.Next()
		if err != nil || o.Side != manifest.SideWitness || o.Service != paths.ServiceNeighbour || o.Nonce != n || o.Proto != proto {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

func freePorts(t *testing.T) [2]string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	_, a, _ := net.SplitHostPort(l.Addr().String())
	_, b, _ := net.SplitHostPort(pc.LocalAddr().String())
	return [2]string{a, b}
}

// A first process plants what seed hands it, and ends when it is told to,
// with everything that it planted.
func TestHold(t *testing.T) {
	cmd := isolated(command("hold"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It can be told to end once it waits for a planting.
	for deadline := time.Now().Add(10 * time.Second); !waits(t, cmd.Process.Pid); {
		if time.Now().After(deadline) {
			t.Fatal("never began to wait for a planting")
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first", "second"} {
		seed := command("seed")
		raw, err := json.Marshal(plant.Seed{Files: []plant.File{{Path: file, Content: content}}, Processes: []plant.Process{{Name: "wallproof-test-planted"}}})
		if err != nil {
			t.Fatal(err)
		}
		seed.Stdin = bytes.NewReader(append(raw, '\n'))
		out, err := seed.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		startIn(t, cmd.Process.Pid, seed)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != `{"ready":true,"planted":2}`+"\n" {
			t.Errorf("%s: %q, %v", content, line, err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != content {
			t.Errorf("%s: %q, %v", content, b, err)
		}
		if err := seed.Wait(); err != nil { // the first process holds it, so seed has ended
			t.Errorf("%s: seed ended with %v", content, err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// startIn starts a command in the network namespace of another process.
func startIn(t *testing.T, pid int, cmd *exec.Cmd) {
	t.Helper()
	// The thread changes its namespace and goes back: were it left to end there,
	// whatever it had started before would be killed with it (Pdeathsig).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		t.Fatal(back)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waits reports whether a first process waits for a planting.
func waits(t *testing.T, pid int) bool {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		const listens = "00010000" // flags of a socket that accepts
		if fields := strings.Fields(line); len(fields) == 8 && fields[7] == "@wallproof-hold" && fields[3] == listens {
			return true
		}
	}
	return false
}
