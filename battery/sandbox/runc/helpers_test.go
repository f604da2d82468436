//go:build runc

package runc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

const (
	testBase  = 1 << 20
	guestPath = sandbox.ReservedDir + "/guest"
)

// fixture is a root file system with our own guest program for it.
type fixture struct{ rootfs, guest, state string }

func newFixture(t testing.TB) fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("these tests make namespaces and mounts: run them as root")
	}
	dir := t.TempDir()
	f := fixture{rootfs: filepath.Join(dir, "rootfs"), guest: filepath.Join(dir, "guest"), state: testStateDir(t)}
	cmd := exec.Command("go", "build", "-trimpath", "-o", f.guest, "./testdata/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the guest program: %v\n%s", err, b)
	}
	for name, mode := range map[string]os.FileMode{"": 0o755, "etc": 0o755, "tmp": 0o777 | os.ModeSticky, "work": 0o777} {
		path := filepath.Join(f.rootfs, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, testBase, testBase); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// link puts a link into the image.
func (f fixture) link(t *testing.T, name, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(f.rootfs, name)); err != nil {
		t.Fatal(err)
	}
}

func newID(t testing.TB) string {
	t.Helper()
	b := make([]byte, 6)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return sandbox.IDPrefix + hex.EncodeToString(b)
}

func (f fixture) spec(id string) sandbox.Spec {
	return sandbox.Spec{
		ID: id, Rootfs: f.rootfs, IDBase: testBase, Init: []string{guestPath, "hold"},
		Mounts: []sandbox.Mount{{Source: f.guest, Target: guestPath, ReadOnly: true}},
	}
}

// start starts a sandbox that is stopped when the test ends.
func (f fixture) start(t testing.TB, p Profile, change func(*sandbox.Spec)) *box {
	t.Helper()
	spec := f.spec(newID(t))
	if change != nil {
		change(&spec)
	}
	sb, err := New(p, Options{StateDir: f.state}).Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb.(*box)
}

// output runs the guest and returns what it prints.
func output(t *testing.T, sb sandbox.Sandbox, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	exit, err := sb.Exec(t.Context(), sandbox.Command{Argv: append([]string{guestPath}, args...), Stdout: &out, Stderr: &errs})
	if err != nil || exit != 0 {
		t.Fatalf("%v: exit %d, %v, %s", args, exit, err, &errs)
	}
	return out.String()
}

func factsOf(t *testing.T, sb sandbox.Sandbox) map[string]string {
	t.Helper()
	var facts map[string]string
	if err := json.Unmarshal([]byte(output(t, sb, "facts")), &facts); err != nil {
		t.Fatal(err)
	}
	return facts
}

// newNetns makes a named network namespace and returns its path.
func newNetns(t *testing.T) string {
	t.Helper()
	name := newID(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: it is in the new namespace
		ns, err := netns.NewNamed(name)
		if err == nil {
			ns.Close()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.DeleteNamed(name); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	return "/run/netns/" + name
}

func withUmask(mask int, f func()) {
	old := unix.Umask(mask)
	defer unix.Umask(old)
	f()
}
