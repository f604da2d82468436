package conformance

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

func (s *suite) mounts(t *testing.T) {
	dir := t.TempDir()
	ro, rw := filepath.Join(dir, "ro"), filepath.Join(dir, "rw")
	mkdir(t, ro, 0o755)
	mkdir(t, rw, 0o777)
	if err := os.WriteFile(filepath.Join(ro, "file"), []byte("from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := s.spec("mounts")
	spec.Mounts = append(spec.Mounts,
		sandbox.Mount{Source: ro, Target: "/data/ro", ReadOnly: true},
		sandbox.Mount{Source: rw, Target: "/data/rw"})
	old := syscall.Umask(0o077) // it must not matter
	sb := s.start(t, spec)
	syscall.Umask(old)
	if got := must(t, sb, "stat", "/data"); got != "drwxr-xr-x 0 0" {
		t.Errorf("the made folder is %s", got)
	}
	if got := must(t, sb, "read", "/data/ro/file"); got != "from the host" {
		t.Errorf("read %q", got)
	}
	for _, path := range []string{"/data/ro/file", "/data/ro/new", guestPath} {
		if r := try(t, sb, asRoot, "write", path, "x"); r.exit == 0 && r.err == nil {
			t.Errorf("wrote to %s", path)
		}
	}
	must(t, sb, "write", "/data/rw/new", "from inside")
	if b, err := os.ReadFile(filepath.Join(rw, "new")); err != nil || string(b) != "from inside" {
		t.Errorf("the host reads %q, %v", b, err)
	}
	if es, err := os.ReadDir(ro); err != nil || len(es) != 1 {
		t.Errorf("the read-only folder has %d entries, %v", len(es), err)
	}
}

// generatedFiles are there although the image has links in their place, and
// the kernel's and our folders are not where the image's links point.
func (s *suite) generatedFiles(t *testing.T) {
	sb := s.start(t, s.spec("etc"))
	for path, want := range map[string]string{
		"/etc/hosts": "203.0.113.9 witness.test\n", "/etc/resolv.conf": "nameserver 192.0.2.1\n", "/etc/hostname": "box\n",
	} {
		if got := must(t, sb, "read", path); !strings.Contains(got, want) {
			t.Errorf("%s is %q", path, got)
		}
		if r := try(t, sb, asRoot, "write", path, "x"); r.exit == 0 {
			t.Errorf("root wrote to %s", path)
		}
	}
	for _, path := range []string{"/proc", "/dev", "/sys", sandbox.ReservedDir} {
		if got := must(t, sb, "stat", path); !strings.HasPrefix(got, "d") {
			t.Errorf("%s is %s", path, got)
		}
	}
	if r := try(t, sb, nil, "stat", "/elsewhere/guest"); r.exit == 0 {
		t.Error("the image's link led the mount away")
	}
}

// misledMounts tries targets that go through the fixture image's links: a
// harmless one, which ends where the link leads, and ones that would cover
// what is mounted in our folder or in /etc.
func (s *suite) misledMounts(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	if err := os.WriteFile(src, []byte("mounted"), 0o644); err != nil {
		t.Fatal(err)
	}
	mount := func(targets ...string) sandbox.Spec {
		spec := s.spec("misled")
		for _, target := range targets {
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: src, Target: target, ReadOnly: true})
		}
		return spec
	}
	sb := s.start(t, mount("/links/harmless/deep/file", "/home/user/new/file", "/etc/hosts"))
	for _, path := range []string{"/home/user/deep/file", "/links/harmless/deep/file", "/home/user/new/file", "/etc/hosts"} {
		if got := must(t, sb, "read", path); got != "mounted" {
			t.Errorf("%s is %q", path, got)
		}
	}
	if err := sb.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]sandbox.Spec{
		"a link to our folder":          mount("/links/ours/guest"),
		"a link to our file":            mount("/links/guest"),
		"a link that climbs to it":      mount("/links/climb/guest"),
		"a link to /proc":               mount("/links/proc/self"),
		"two that end at one place":     mount("/home/user/x", "/links/harmless/x"),
		"a link to a generated file":    mount("/links/hosts"),
		"a link to nothing":             mount("/links/nothing"),
		"below a link to nothing":       mount("/links/nothing/x"),
		"below one another in a circle": mount("/links/circle/x"),
	} {
		sb, err := s.driver.Start(t.Context(), spec)
		if err == nil {
			t.Errorf("%s: started", name)
			sb.Stop(t.Context())
		}
		s.nothingLeft(t, spec.ID)
	}
}

func (s *suite) freshOverlay(t *testing.T) {
	paths := []string{"/root/new", "/tmp/new", "/dev/shm/new", "/etc/passwd"}
	one := s.start(t, s.spec("overlay1"))
	for _, p := range paths {
		mustAs(t, one, asRoot, "write", p, "overwritten")
		if got := mustAs(t, one, asRoot, "read", p); got != "overwritten" {
			t.Errorf("%s reads %q", p, got)
		}
	}
	two := s.start(t, s.spec("overlay2"))
	for _, p := range paths {
		if r := try(t, two, asRoot, "read", p); strings.Contains(r.stdout, "overwritten") {
			t.Errorf("a write to %s is seen in another sandbox", p)
		}
	}
	if b, err := os.ReadFile(filepath.Join(s.fix.Rootfs, "etc/passwd")); err != nil || strings.Contains(string(b), "overwritten") {
		t.Errorf("a write is seen on the host: %q, %v", b, err)
	}
}

func (s *suite) limits(t *testing.T) {
	spec := s.spec("limits")
	spec.Limits = sandbox.Limits{MemoryBytes: 512 << 20, Processes: 64, DiskBytes: 32 << 20}
	sb := s.start(t, spec)
	for _, path := range []string{"/elsewhere/big", "/tmp/big", "/dev/shm/big"} {
		if got := must(t, sb, "fill", path, "100"); !strings.HasPrefix(got, "stopped at ") {
			t.Errorf("writing to %s: %s", path, got)
		}
	}
	// As another user than the first process's, whose allowance stays intact.
	other := func(c *sandbox.Command) { c.User = &sandbox.User{UID: 2000, GID: 2000} }
	if got := mustAs(t, sb, other, "fork", "200"); !strings.HasPrefix(got, "stopped at ") {
		t.Errorf("starting processes: %s", got)
	}
	if !s.fix.MemoryLimit {
		return
	}
	// The limit ends the command or the whole sandbox.
	r := try(t, sb, nil, "allocate", "1024")
	if (r.err == nil && r.exit == 0) || (r.err != nil && !errors.Is(r.err, sandbox.ErrEnded)) {
		t.Errorf("allocated twice the memory limit: exit %d, %v", r.exit, r.err)
	}
}

// snapshotTree describes every file below dir.
func snapshotTree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d:%d %d", path, fi.Mode(), st.Uid, st.Gid, fi.ModTime().UnixNano())
		switch {
		case fi.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(content))
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %s", target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
