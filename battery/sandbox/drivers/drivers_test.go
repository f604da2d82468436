package drivers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox/gvisor"
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

// TestDocumentedTable holds the table of docs/drivers.md against what the drivers
// say of themselves.
func TestDocumentedTable(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/drivers.md")
	if err != nil {
		t.Fatal(err)
	}
	runtimes := map[string]string{gvisor.Name: os.Getenv(gvisor.RuntimeEnv)}
	if runtimes[gvisor.Name] == "" {
		runtimes[gvisor.Name] = "../../../bin/wallproof-runsc"
	}
	for _, name := range Names() {
		d, err := New(name, Options{StateDir: t.TempDir(), Runtime: runtimes[name]})
		if err != nil {
			t.Fatal(err)
		}
		desc, err := d.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snapshots := map[bool]string{true: "yes", false: "no"}[desc.Snapshots]
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, desc.Facts["kernel"], snapshots, strings.Join(desc.NetworkModes, ", "))
		if !strings.Contains(string(doc), row) {
			t.Errorf("the table lacks the row %s", row)
		}
	}
}
