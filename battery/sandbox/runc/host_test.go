//go:build runc

package runc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
)

func initPid(t *testing.T, sb *box) int {
	t.Helper()
	pid, err := readPid(filepath.Join(sb.dir.Bundle(), initPidFile))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// running starts a command that goes on until the test ends, and returns its
// process id on the host.
func running(t *testing.T, sb *box, c sandbox.Command) int {
	t.Helper()
	out, w := io.Pipe()
	c.Argv, c.Stdout = append([]string{guestPath, "say-and-hold"}, c.Argv...), w
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, c)
		w.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the command ended with %v", err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return execPid(t, sb)
}

// execPid is the latest command's process id, which the runtime writes down a
// moment after the command has begun.
func execPid(t *testing.T, sb *box) int {
	t.Helper()
	file := filepath.Join(sb.dir.Bundle(), "exec-"+strconv.FormatUint(sb.execs.Load(), 10)+".pid")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		pid, err := readPid(file)
		if err == nil {
			return pid
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// sameNet is the network namespace of a new command, which is also the first
// process's.
func sameNet(t *testing.T, sb *box) string {
	t.Helper()
	its, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(running(t, sb, sandbox.Command{})), "ns/net"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(initPid(t, sb)), "ns/net"))
	if err != nil || first != its {
		t.Errorf("the command's network namespace is %s, the first process's %s, %v", its, first, err)
	}
	return its
}

// TestProcessesOnHost looks at the first process and at a command from outside.
func TestProcessesOnHost(t *testing.T) {
	f := newFixture(t)
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			sb := f.start(t, p, func(s *sandbox.Spec) { s.User = sandbox.User{UID: 7, GID: 8} })
			base := int(p.base(sb.spec))
			for _, pid := range []int{initPid(t, sb), running(t, sb, sandbox.Command{})} {
				status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{"\nUid:\t" + strconv.Itoa(base+7) + "\t", "\nGid:\t" + strconv.Itoa(base+8) + "\t", "\nNoNewPrivs:\t1", "\nCapEff:\t0000000000000000", "\nCapBnd:\t0000000000000000"} {
					if !bytes.Contains(status, []byte(want)) {
						t.Errorf("no %q in\n%s", want, status)
					}
				}
				ns, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/user"))
				if err != nil || (ns != own) != (p == Hardened) {
					t.Errorf("its user namespace is %s, ours %s, %v", ns, own, err)
				}
			}
		})
	}
}

// TestNoSecretOnDisk: neither the first process's environment nor a command's is
// in any file of the run folder, and the runtime has neither.
func TestNoSecretOnDisk(t *testing.T) {
	const ofInit, ofCommand, ofHost = "wpsecretofinit0123", "wpsecretofcommand0123", "wpsecretofhost0123"
	t.Setenv("WALLPROOF_TEST_SECRET", ofHost)
	f := newFixture(t)
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			sb := f.start(t, p, func(s *sandbox.Spec) { s.Env = []string{"TOKEN=" + ofInit} })
			pid := running(t, sb, sandbox.Command{Env: []string{"TOKEN=" + ofCommand}})
			if env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")); err != nil || !bytes.Contains(env, []byte(ofCommand)) {
				t.Fatalf("the secret did not arrive: %q, %v", env, err)
			}
			files := 0
			err := filepath.WalkDir(string(sb.dir), func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() || strings.HasPrefix(path, sb.dir.Root()) {
					return err
				}
				files++
				b, err := os.ReadFile(path)
				for _, secret := range []string{ofInit, ofCommand, ofHost} {
					if bytes.Contains(b, []byte(secret)) {
						t.Errorf("%s has %s", path, secret)
					}
				}
				return err
			})
			if err != nil || files < 5 {
				t.Errorf("%d files, %v", files, err)
			}
			runtimes, err := filepath.Glob("/proc/[0-9]*/environ")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range runtimes {
				other, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if b, err := os.ReadFile(file); err == nil && other != os.Getpid() && belongs(other, sb.dir) && bytes.Contains(b, []byte(ofHost)) {
					t.Errorf("process %d has our environment", other)
				}
			}
		})
	}
}

// TestCopyInStaysInside follows the image's links as the sandbox would, and not
// out of it or into the kernel.
func TestCopyInStaysInside(t *testing.T) {
	f := newFixture(t)
	outside := t.TempDir()
	f.link(t, "work/out", outside)
	f.link(t, "work/climb", "../../../../../../../../.."+outside)
	f.link(t, "work/here", "../tmp")
	f.link(t, "work/kernel", "/proc/sys/kernel")
	f.link(t, "work/magic", "/proc/self/root/tmp")
	f.link(t, "work/file", filepath.Join(outside, "file"))
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			sb := f.start(t, p, nil)
			copyTo := func(path string) error {
				return sb.CopyIn(t.Context(), path, 0o600, strings.NewReader("copied to "+path))
			}
			for path, at := range map[string]string{"/work/here/a": "/tmp/a", "/work/file": "/work/file", "/dev/shm/deep/b": "/dev/shm/deep/b"} {
				if err := copyTo(path); err != nil {
					t.Error(err)
				} else if got := output(t, sb, "read", at); got != "copied to "+path {
					t.Errorf("%s has %q", at, got)
				}
			}
			for _, path := range []string{"/work/out/x", "/work/climb/x", "/work/kernel/x", "/work/kernel/deep/x", "/work/magic/x", "/proc/x", "/sys/x"} {
				if err := copyTo(path); err == nil {
					t.Errorf("%s was written", path)
				}
			}
			if list, err := os.ReadDir(outside); err != nil || len(list) != 0 {
				t.Errorf("%d files outside, %v", len(list), err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			never, w := io.Pipe()
			defer w.Close()
			if err := sb.CopyIn(ctx, "/tmp/never", 0o600, never); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled copy: %v", err)
			}
			if err := sb.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := copyTo("/tmp/late"); !errors.Is(err, sandbox.ErrEnded) {
				t.Errorf("a copy into a stopped sandbox: %v", err)
			}
		})
	}
}
