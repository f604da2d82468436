package conformance

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// checkpoint saves a sandbox while it goes on, saves it again and ends it, and
// restores both, one of them twice.
func (s *suite) checkpoint(t *testing.T) {
	snap, ok := s.driver.(sandbox.Snapshotter)
	if !ok {
		return
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	orig := s.start(t, s.spec("snap"))
	secret := strings.Fields(must(t, orig, "ask"))[0]
	for path, text := range map[string]string{"/elsewhere/file": "in the overlay", "/tmp/file": "in the tmpfs"} {
		must(t, orig, "write", path, text)
	}
	running := sleeper(t, orig)
	if err := snap.Checkpoint(t.Context(), orig, first, true); err != nil {
		t.Fatal(err)
	}
	if got := must(t, orig, "ask"); got != secret+" 2" {
		t.Errorf("after a checkpoint the sandbox answers %q", got)
	}
	select {
	case err := <-running:
		t.Errorf("the checkpoint ended a running command: %v", err)
	default:
	}
	must(t, orig, "write", "/tmp/file", "later")
	if err := snap.Checkpoint(t.Context(), orig, second, false); err != nil {
		t.Fatal(err)
	}
	s.nothingLeft(t, orig.ID())
	if err := <-running; !errors.Is(err, sandbox.ErrEnded) {
		t.Errorf("a command that ran when the sandbox ended: %v", err)
	}

	for name, tt := range map[string]struct{ dir, counter, tmp string }{
		"r1": {first, " 2", "in the tmpfs"}, "r2": {first, " 2", "in the tmpfs"}, "r3": {second, " 3", "later"},
	} {
		spec := s.spec(name)
		spec.Hostname = "restored"
		sb, err := snap.Restore(t.Context(), spec, tt.dir)
		if err != nil {
			t.Fatal(err)
		}
		s.stopLater(t, sb)
		if got := must(t, sb, "ask"); got != secret+tt.counter {
			t.Errorf("%s: the first process answers %q, want %q", name, got, secret+tt.counter)
		}
		if got := must(t, sb, "read", "/elsewhere/file"); got != "in the overlay" {
			t.Errorf("%s: overlay has %q", name, got)
		}
		if got := must(t, sb, "read", "/tmp/file"); got != tt.tmp {
			t.Errorf("%s: tmpfs has %q", name, got)
		}
		if got := must(t, sb, "read", "/etc/hostname"); got != "restored\n" {
			t.Errorf("%s: host name is %q", name, got)
		}
	}
	if _, err := snap.Restore(t.Context(), s.spec("r4"), filepath.Join(dir, "missing")); err == nil {
		t.Error("restored from nothing")
	}
	s.nothingLeft(t, s.spec("r4").ID)
}

// sleeper runs a command that does not end, and returns when it runs.
func sleeper(t *testing.T, sb sandbox.Sandbox) <-chan error {
	t.Helper()
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{guestPath, "sleep"}, Stdout: w})
		w.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatalf("%v, exec returned %v", err, <-done)
	}
	go io.Copy(io.Discard, out)
	return done
}
