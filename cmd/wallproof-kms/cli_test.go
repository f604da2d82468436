package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wallproof/wallproof/attest/packettest"
)

// The command line with a key in a key service: exported, rotated, refused.
func TestCommandLine(t *testing.T) {
	keys := start(t)
	dir, err := helper()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "wallproof")
	build := exec.Command("go", "build", "-o", bin, "./cmd/wallproof")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command line: %v\n%s", err, out)
	}
	if err := os.Link(filepath.Join(dir, "sigstore-kms-gcpkms"), filepath.Join(filepath.Dir(bin), "sigstore-kms-gcpkms")); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	exits := func(code int, line string, texts ...string) {
		t.Helper()
		cmd := exec.Command(bin, strings.Fields(line)...)
		cmd.Dir = work
		out, err := cmd.CombinedOutput()
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if got != code {
			t.Fatalf("wallproof %s: exit code %d, want %d\n%s", line, got, code, out)
		}
		for _, text := range texts {
			if !strings.Contains(string(out), text) {
				t.Errorf("wallproof %s: %q is not in\n%s", line, text, out)
			}
		}
	}
	for _, name := range []string{"one", "two", "three"} {
		p := packettest.New(t, packettest.Unsigned(), packettest.StartedAt(time.Now().Add(-time.Minute)), packettest.WithoutRedTeam())
		if err := os.Rename(p.WriteDir(t, t.TempDir()), filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	const ref = "gcpkms://" + testKey
	exits(0, "attest --key "+ref+" --export-key old.pub")
	exits(0, "attest one --key "+ref, "cryptoKeyVersions/1#sha256:")
	exits(3, "verify one --key old.pub", "rerun-missing", "cryptoKeyVersions/1#sha256:")

	keys.rotate(t)
	keys.set(func(s *service) { s.disabled[1] = true })
	exits(3, "verify one --key old.pub", "rerun-missing")
	exits(0, "attest two --key "+ref, "cryptoKeyVersions/2#sha256:")
	exits(2, "verify two --key old.pub", "signature-invalid")
	exits(0, "attest --key "+ref+" --export-key new.pub")
	exits(3, "verify two --key new.pub", "rerun-missing")
	exits(1, "attest three --key "+ref+"/cryptoKeyVersions/1", "key service")

	before := filesIn(t, filepath.Join(work, "three"))
	keys.set(func(s *service) { s.fail = status.Error(codes.PermissionDenied, "not today") })
	exits(1, "attest three --key "+ref, "not today", "nothing was signed")
	exits(1, "verify two --key new.pub --sign "+ref, "not today")
	if !maps.Equal(before, filesIn(t, filepath.Join(work, "three"))) {
		t.Error("a refused signature changed the packet")
	}
	if _, err := os.Stat(filepath.Join(work, "two", "verification.sigstore.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a re-run that was not signed: %v", err)
	}
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
