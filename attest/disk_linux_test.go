package attest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packettest"
)

// A disk that is full leaves nothing half-written.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("wallproof-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("a small file system (needs root): %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	root := p.WriteDir(t, dir)
	fill(t, filepath.Join(dir, "ballast"))
	before := tree(t, root)
	o := attest.Options{Signer: signer(t, p.Key), ThreatModel: []byte(packettest.ThreatModel), Catalogue: few(), Clock: func() time.Time { return packettest.Now }}
	if _, err := attest.Attest(context.Background(), root, o); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("attest on a full disk: %v", err)
	}
	if !maps.Equal(before, tree(t, root)) {
		t.Error("the packet was changed")
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if _, err := attest.Attest(context.Background(), root, o); err != nil {
		t.Errorf("attest once there is room again: %v", err)
	}
}

// fill writes until the file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 4096); err == nil; {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
