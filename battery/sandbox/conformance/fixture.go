package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// guestPath is where the guest program is mounted inside.
const guestPath = sandbox.ReservedDir + "/guest"

// Fixture is what a driver is tested with.
type Fixture struct {
	Rootfs string // an unpacked image that belongs to IDBase
	IDBase uint32
	Guest  string // the guest program on the host
	// StateDir is a folder in which the driver may leave nothing behind, "" if it
	// keeps none.
	StateDir string
	// MemoryLimit says that the driver enforces Limits.MemoryBytes here.
	MemoryLimit bool
}

// NewFixture builds the guest program and a root file system for it. The root
// file system is a hostile one in what it can do to a driver: its /proc is a
// link, as are the reserved folder and the files that are generated in /etc, and
// /links has some that mounts may be led astray by.
func NewFixture(t testing.TB, idBase uint32) Fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("the conformance suite makes namespaces and mounts: run it as root")
	}
	old := syscall.Umask(0o022)
	t.Cleanup(func() { syscall.Umask(old) })
	dir := t.TempDir()
	f := Fixture{Rootfs: filepath.Join(dir, "rootfs"), IDBase: idBase, Guest: filepath.Join(dir, "guest")}
	buildGuest(t, f.Guest)
	for name, mode := range map[string]fs.FileMode{
		"": 0o755, "etc": 0o755, "tmp": 0o777 | fs.ModeSticky, "root": 0o700, "home/user": 0o755, "elsewhere": 0o777, "links": 0o755,
	} {
		mkdir(t, filepath.Join(f.Rootfs, name), mode)
	}
	for name, target := range map[string]string{
		"proc": "/elsewhere", ".wallproof": "/elsewhere", "etc/hosts": "/elsewhere/hosts", "etc/resolv.conf": "../run/missing/resolv.conf",
		"links/harmless": "../home/user", "links/ours": "/.wallproof", "links/guest": "/.wallproof/guest", "links/climb": "../../../.wallproof",
		"links/proc": "/proc", "links/hosts": "/etc/hosts", "links/nothing": "/nowhere/at/all", "links/circle": "circle",
	} {
		if err := os.Symlink(target, filepath.Join(f.Rootfs, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.Rootfs, "etc/passwd"), []byte("root:x:0:0::/elsewhere:/x\nuser:x:1000:1000::/home/user:/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(f.Rootfs, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(idBase), int(idBase))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(filepath.Join(f.Rootfs, "home/user"), int(idBase)+1000, int(idBase)+1000); err != nil {
		t.Fatal(err)
	}
	return f
}

func mkdir(t testing.TB, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func buildGuest(t testing.TB, out string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "github.com/wallproof/wallproof/battery/sandbox/conformance/testdata/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the guest program: %v\n%s", err, b)
	}
}

// suite is one run of the suite.
type suite struct {
	driver sandbox.Driver
	fix    Fixture
	run    string // random, in every sandbox's id
}

func newSuite(t *testing.T, d sandbox.Driver, f Fixture) *suite {
	b := make([]byte, 4)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return &suite{driver: d, fix: f, run: hex.EncodeToString(b)}
}

// spec is a sandbox of an ordinary user.
func (s *suite) spec(name string) sandbox.Spec {
	return sandbox.Spec{
		ID:       sandbox.IDPrefix + s.run + "-t-" + name,
		Rootfs:   s.fix.Rootfs,
		IDBase:   s.fix.IDBase,
		Env:      []string{"INIT=1", "HOME=/home/user"},
		User:     sandbox.User{UID: 1000, GID: 1000},
		Hostname: "box",
		Mounts:   []sandbox.Mount{{Source: s.fix.Guest, Target: guestPath, ReadOnly: true}},
		Init:     []string{guestPath, "hold"},
		Hosts:    map[string]string{"witness.test": "203.0.113.9"},
		DNS:      []string{"192.0.2.1"},
	}
}

// start starts a sandbox that is stopped, and checked for what it left, at the
// end of the test.
func (s *suite) start(t *testing.T, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	sb, err := s.driver.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.stopLater(t, sb)
	return sb
}

func (s *suite) stopLater(t *testing.T, sb sandbox.Sandbox) {
	t.Cleanup(func() {
		if err := sb.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		s.nothingLeft(t, sb.ID())
	})
}
