package boundary

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHiddenName: a name is removed although somebody has mounted the folder of
// names over itself since it was made. It happens in a mount namespace of its own.
func TestHiddenName(t *testing.T) {
	const inside = "WALLPROOF_TEST_HIDDEN_NAME"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestHiddenName$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	// A folder of names that is seen nowhere else.
	if err := errors.Join(os.MkdirAll(netnsDir, 0o755), unix.Mount("tmpfs", netnsDir, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	ns, err := newNamespace("wallproof-hidden")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(netnsDir, netnsDir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := deleteName(ns.name); !errors.Is(err, unix.EBUSY) {
		t.Errorf("the mount over it hides nothing, so this test shows nothing: %v", err)
	}
	if err := ns.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(netnsDir, ns.name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the name is still there: %v", err)
	}
}
