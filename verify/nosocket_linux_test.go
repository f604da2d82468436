package verify_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// noSocketMode tells the child process of this test what to do.
const noSocketMode = "WALLPROOF_TEST_NO_SOCKET"

// forbidSockets makes socket(2) and connect(2) kill the process, in every
// thread, for good.
func forbidSockets() error {
	const (
		offsetNr = 0
		kill     = 0x80000000 // SECCOMP_RET_KILL_PROCESS
		allow    = 0x7fff0000 // SECCOMP_RET_ALLOW
	)
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNr}
	filter := []unix.SockFilter{
		load,
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CONNECT, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: kill},
		{Code: unix.BPF_RET | unix.BPF_K, K: allow},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// E5: a key, and an identity, are verified with no way to a network: no DNS, no
// TUF, no socket at all.
func TestE5VerifyOpensNoSocket(t *testing.T) {
	switch os.Getenv(noSocketMode) {
	case "verify":
		p := packettest.New(t)
		if err := forbidSockets(); err != nil {
			t.Fatal(err)
		}
		if r := verify.Verify(p.Input()); r.Verdict != verify.Valid {
			t.Fatalf("%s: %v", r.Verdict, r.Failed())
		}
		in := p.Input()
		in.Trust = verify.Trust{Identity: &verify.Identity{SAN: "a@example.org", Issuer: "https://issuer.example.org"}}
		if r := verify.Verify(in); !r.Has(verify.CodeSignerNotIdentity) {
			t.Fatalf("identity: %v", r.Failed())
		}
		return
	case "socket":
		if err := forbidSockets(); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		t.Fatalf("a socket was opened: %d, %v", fd, err)
	}
	for _, mode := range []string{"verify", "socket"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestE5VerifyOpensNoSocket$")
		cmd.Env = append(os.Environ(), noSocketMode+"="+mode)
		out, err := cmd.CombinedOutput()
		if mode == "verify" && err != nil {
			t.Errorf("verification without sockets: %v\n%s", err, out)
		}
		// The control: a socket must kill, or the first half proves nothing.
		var exit *exec.ExitError
		if mode == "socket" && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSYS) {
			t.Errorf("opening a socket did not kill the process: %v\n%s", err, out)
		}
	}
}
