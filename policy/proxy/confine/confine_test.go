//go:build linux && (amd64 || arm64)

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// confinedArg makes the test binary confine itself and report what it can
// still do.
const confinedArg = "wallproof-test-confined"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confinedArg {
		confined()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// report is what a confined process found out: names of what worked.
type report struct {
	Facts  Facts
	Err    string
	Worked []string
}

func confined() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var r report
	if r.Facts, err = Process(); err != nil {
		r.Err = err.Error()
	}
	for name, try := range map[string]func() error{
		"exec":           func() error { return exec.Command("/bin/true").Run() },
		"open a file":    func() error { _, err := os.ReadFile("/etc/hostname"); return err },
		"make a file":    func() error { return os.WriteFile("/tmp/wallproof-confined", nil, 0o600) },
		"unshare":        func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"ptrace":         func() error { return unix.PtraceAttach(1) },
		"netlink socket": func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err },
		"packet socket":  func() error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err },
		"keyring":        func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err },
		"io_uring": func() error {
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
			if errno == unix.EPERM {
				return errno
			}
			return nil
		},
		"threads and the network": func() error { return useNetwork(l) },
	} {
		if try() == nil {
			r.Worked = append(r.Worked, name)
		}
	}
	b, _ := json.Marshal(r)
	fmt.Println(string(b))
}

// useNetwork needs new threads, sockets and a connection: what a proxy lives by.
func useNetwork(l net.Listener) error {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x"))
			_ = c.Close()
		}
	}()
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for range 100 {
		wg.Go(func() {
			c, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				_, err = c.Read(make([]byte, 1))
				_ = c.Close()
			}
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestOnlyTheNetworkIsLeft(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, confinedArg).Output()
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		t.Fatalf("%v: %s", err, ee.Stderr)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Err != "" || !r.Facts.Seccomp || r.Facts.CoreDumps {
		t.Errorf("%+v", r)
	}
	worked := strings.Join(r.Worked, ", ")
	allowed := "threads and the network"
	if r.Facts.Landlock == 0 {
		t.Log("this kernel has no Landlock")
		for _, name := range []string{"open a file", "make a file"} {
			worked = strings.ReplaceAll(strings.ReplaceAll(worked, name+", ", ""), ", "+name, "")
		}
		_ = os.Remove("/tmp/wallproof-confined")
	}
	if worked != allowed {
		t.Errorf("what still works: %s", worked)
	}
}
