package front

import (
	"os"
	"path/filepath"
	"testing"
)

// What sudo is asked to start is what a user may start: rules for sudo name that.
func TestTyped(t *testing.T) {
	dir := t.TempDir()
	boundary, typed := filepath.Join(dir, Boundary), filepath.Join(dir, Program)
	if got := Typed(boundary); got != boundary {
		t.Errorf("alone: %s", got)
	}
	if err := os.Mkdir(typed, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Typed(boundary); got != boundary {
		t.Errorf("beside a folder: %s", got)
	}
	if err := os.Remove(typed); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(typed, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Typed(boundary); got != typed {
		t.Errorf("beside the program: %s", got)
	}
	if other := filepath.Join(dir, "other"); Typed(other) != other {
		t.Error("another program became this one")
	}
}

// A program that another version hands over to says so, and what it starts later is
// told nothing of it.
func TestCheck(t *testing.T) {
	t.Setenv(mark, "")
	if err := Check(); err != nil {
		t.Errorf("started by itself: %v", err)
	}
	t.Setenv(mark, "v0.0.0")
	if Check() == nil {
		t.Error("another version is not noticed")
	}
	if v := os.Getenv(mark); v != "" {
		t.Errorf("%s=%s stays", mark, v)
	}
}
