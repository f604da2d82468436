//go:build runc

package runc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox/conformance"
)

var profiles = []Profile{Hardened, Bare}

// testStateDir is a state folder below /run, as in real use, for this test
// alone.
func testStateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "wallproof-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(filepath.Join(dir, "runc")); err != nil && !os.IsNotExist(err) {
			t.Errorf("the state folder is not empty: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "runc")
}

func TestConformance(t *testing.T) {
	for _, p := range profiles {
		for name, base := range map[string]uint32{"shifted ids": 1 << 20, "plain ids": 0} {
			t.Run(string(p)+" with "+name, func(t *testing.T) {
				f := conformance.NewFixture(t, base)
				f.StateDir = testStateDir(t)
				f.MemoryLimit = true
				conformance.Run(t, New(p, Options{StateDir: f.StateDir}), f)
			})
		}
	}
}
