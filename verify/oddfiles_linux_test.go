package verify_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
)

// What stands in a packet's folder under a file's name and is no file (a pipe, a
// device, a socket, a link even to the right bytes) is refused, without being
// opened: a pipe would be waited for. A second name of the same file is a file.
func TestOddFiles(t *testing.T) {
	for _, kind := range []struct {
		name string
		make func(path, good string) error
		want verify.Verdict
	}{
		{"pipe", func(path, _ string) error { return syscall.Mkfifo(path, 0o644) }, verify.Invalid},
		{"device", func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o644, 1<<8|3) }, verify.Invalid},
		{"socket", func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o644, 0) }, verify.Invalid},
		{"link", func(path, good string) error { return os.Symlink(good, path) }, verify.Invalid},
		{"link to itself", func(path, _ string) error { return os.Symlink(filepath.Base(path), path) }, verify.Invalid},
		{"folder", func(path, _ string) error { return os.Mkdir(path, 0o755) }, verify.Invalid},
		{"hard link", func(path, good string) error { return os.Link(good, path) }, verify.Valid},
	} {
		p := smallPacket(t)
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			dir := t.TempDir()
			root := p.WriteDir(t, dir)
			path, good := filepath.Join(root, filepath.FromSlash(name)), filepath.Join(dir, "good")
			if err := os.Rename(path, good); err != nil {
				t.Fatal(err)
			}
			if err := kind.make(path, good); err != nil {
				t.Fatalf("make a %s (a device needs root): %v", kind.name, err)
			}
			rooted, err := os.OpenRoot(root)
			if err != nil {
				t.Fatal(err)
			}
			in := p.Input()
			for _, in.Packet = range []fs.FS{os.DirFS(root), rooted.FS(), packet.Overlay(os.DirFS(root), packet.Memory{})} {
				if r := verify.Verify(in); r.Verdict != kind.want {
					t.Errorf("%s in place of %s: %s, want %s:%s", kind.name, name, r.Verdict, kind.want, explain(r))
				}
			}
			rooted.Close()
		}
	}
}

// A folder of a packet that is a link leads nowhere, not even to the right files.
func TestLinkedFolder(t *testing.T) {
	for _, name := range []string{packet.ObservationsDir, packet.LogsDir} {
		dir := t.TempDir()
		p := smallPacket(t)
		root := p.WriteDir(t, dir)
		if err := os.Rename(filepath.Join(root, name), filepath.Join(dir, "elsewhere")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		in := p.Input()
		in.Packet = os.DirFS(root)
		if r := verify.Verify(in); r.Verdict != verify.Invalid {
			t.Errorf("%s: %s", name, r.Verdict)
		}
	}
}
