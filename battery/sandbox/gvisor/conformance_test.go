package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox/conformance"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// testRuntime is the built runtime: RuntimeEnv, or bin/ at the module's root.
func testRuntime(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(RuntimeEnv); p != "" {
		return p
	}
	p, err := filepath.Abs("../../../bin/" + runtimeName)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

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
		if err := os.Remove(filepath.Join(dir, "gvisor")); err != nil && !os.IsNotExist(err) {
			t.Errorf("the state folder is not empty: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "gvisor")
}

func TestConformance(t *testing.T) {
	for name, base := range map[string]uint32{"shifted ids": 1 << 20, "plain ids": 0} {
		t.Run(name, func(t *testing.T) {
			f := conformance.NewFixture(t, base)
			f.StateDir = testStateDir(t)
			f.MemoryLimit = bundle.DetectCgroups(bundle.CgroupRoot) != bundle.CgroupsNone
			conformance.Run(t, New(Options{Runtime: testRuntime(t), StateDir: f.StateDir}), f)
		})
	}
}
