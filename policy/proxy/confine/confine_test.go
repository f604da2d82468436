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

// selfArg does the same with what a stand-alone proxy gives up, and userArg with
// root that becomes somebody else.
const (
	selfArg = "wallproof-test-self"
	userArg = "wallproof-test-user"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		if confine, ok := map[string]func() (Facts, error){
			confinedArg: Process,
			selfArg:     func() (Facts, error) { return Self(0, 0) },
			userArg:     func() (Facts, error) { return Self(65534, 65534) },
		}[os.Args[1]]; ok {
			confined(confine)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// report is what a confined process found out: names of what worked.
type report struct {
	Facts  Facts
	Err    string
	Worked []string
	Status string // of /proc/self/status, where it can be read
}

func confined(confine func() (Facts, error)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var r report
	if r.Facts, err = confine(); err != nil {
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
	status, _ := os.ReadFile("/proc/self/status")
	r.Status = string(status)
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

func reportOf(t *testing.T, arg string) report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, arg).Output()
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		t.Fatalf("%v: %s", err, ee.Stderr)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// D14: the stand-alone proxy keeps its files and the network, and nothing else of
// what makes a process dangerous.
func TestD14StandAloneKeepsFilesAndTheNetwork(t *testing.T) {
	for _, arg := range []string{selfArg, userArg} {
		r := reportOf(t, arg)
		if arg == userArg && os.Geteuid() != 0 {
			if r.Err == "" {
				t.Error("somebody who is not root became another user")
			}
			continue
		}
		if r.Err != "" || !r.Facts.Seccomp || r.Facts.CoreDumps {
			t.Errorf("%s: %+v", arg, r)
		}
		_ = os.Remove("/tmp/wallproof-confined")
		for _, worked := range r.Worked {
			if worked != "open a file" && worked != "make a file" && worked != "threads and the network" {
				t.Errorf("%s: what still works: %s", arg, worked)
			}
		}
		if len(r.Worked) != 3 {
			t.Errorf("%s: only these still work: %v", arg, r.Worked)
		}
		want := []string{"Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"}
		if arg == userArg {
			want = append(want, "Uid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n")
		}
		for _, line := range want {
			if !strings.Contains(r.Status, line) {
				t.Errorf("%s: status lacks %q:\n%s", arg, line, r.Status)
			}
		}
	}
}

func TestOnlyTheNetworkIsLeft(t *testing.T) {
	r := reportOf(t, confinedArg)
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
