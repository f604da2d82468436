package isolation

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/planter"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] == planter.HoldArgument {
		planter.HoldUntilEOF(os.Stdin)
		return
	}
	os.Exit(m.Run())
}

func TestMeasure(t *testing.T) {
	facts := Measure()
	for name, value := range facts {
		if len(value) > maxValue || strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			t.Errorf("%s: %q", name, value)
		}
	}
	// What a requirement is told by has to be measured.
	for _, tech := range catalog.All() {
		for _, v := range tech.Variants {
			for _, req := range tech.RequiresOf(v) {
				if f := req.Fact(); f != "" && facts[f] == "" {
					t.Errorf("%s is told by the fact %s, which is not measured", req, f)
				}
			}
		}
	}
	if !strings.HasPrefix(facts["kernel"], "Linux version ") {
		t.Errorf("kernel %q", facts["kernel"])
	}
	if facts["ipv6"] != "yes" && facts["ipv6"] != "EAFNOSUPPORT" {
		t.Errorf("ipv6 %q", facts["ipv6"])
	}
}

func TestReason(t *testing.T) {
	for want, err := range map[string]error{
		"EPERM":        unix.EPERM,
		"ENOENT":       &fs.PathError{Op: "open", Path: "x", Err: unix.ENOENT},
		"file is gone": errString("file is gone"),
	} {
		if got := reason(err); got != want {
			t.Errorf("reason(%v) = %q, want %q", err, got, want)
		}
	}
}

type errString string

func (e errString) Error() string { return string(e) }

func TestClean(t *testing.T) {
	if got := clean("a\n\x00é" + strings.Repeat("x", 1000)); !strings.HasPrefix(got, "a??") || len(got) > maxValue {
		t.Errorf("%q", got)
	}
}
