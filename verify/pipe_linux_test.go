package verify_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
)

// A pipe in a packet's folder is refused, not waited for.
func TestPipeIsNotOpened(t *testing.T) {
	for _, name := range []string{packet.AttestationFile, packet.VerificationFile, packet.ManifestFile, packet.RedactionFile, packet.ControlFile} {
		root := smallPacket(t).WriteDir(t, t.TempDir())
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		p := smallPacket(t)
		in := p.Input()
		dir, err := os.OpenRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, in.Packet = range []fs.FS{os.DirFS(root), dir.FS(), packet.Overlay(os.DirFS(root), packet.Memory{"x": nil})} {
			if r := verify.Verify(in); r.Verdict != verify.Invalid {
				t.Errorf("%s: %s", name, r.Verdict)
			}
		}
		dir.Close()
	}
}
