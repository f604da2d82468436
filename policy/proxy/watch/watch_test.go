//go:build linux

package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestEveryWayToSave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("policy.yaml", "one")
	got := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- File(ctx, path, []byte("zero"), func(b []byte) { got <- string(b) }) }()
	want := func(text string) {
		t.Helper()
		if s := <-got; s != text {
			t.Errorf("got %q, want %q", s, text)
		}
	}
	want("one") // edited before the watch began
	write("policy.yaml", "two")
	want("two")
	write("policy.tmp", "three")
	if err := os.Rename(filepath.Join(dir, "policy.tmp"), path); err != nil {
		t.Fatal(err)
	}
	want("three")
	write("other.yaml", "four") // another file
	if err := os.Symlink("other.yaml", filepath.Join(dir, "link.tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "link.tmp"), path); err != nil {
		t.Fatal(err)
	}
	want("four")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("policy.yaml", "five")
	want("five")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
