package drivers

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryNamedDriverExists(t *testing.T) {
	for _, name := range Names() {
		if d, err := New(name, Options{StateDir: t.TempDir()}); err != nil || d == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Contains(Names(), Default) {
		t.Errorf("the default %s is not among %q", Default, Names())
	}
	if _, err := New("nothing", Options{}); err == nil || !strings.Contains(err.Error(), Default) {
		t.Errorf("unknown name: %v", err)
	}
}

func TestSweepOfNothing(t *testing.T) {
	if got, err := Sweep(t.Context(), filepath.Join(t.TempDir(), "missing"), nil); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}
