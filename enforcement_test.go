package wallproof

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of docs/enforcement.md names tests that exist, and each fuzz target there is one.
func TestEnforcementHasTests(t *testing.T) {
	rows, n := testedRows(t, "docs/enforcement.md")
	if len(rows) < 50 || n < 150 {
		t.Errorf("%d rows with %d tests; this test reads the page wrongly", len(rows), n)
	}
	doc, err := os.ReadFile("docs/enforcement.md")
	if err != nil {
		t.Fatal(err)
	}
	targets := testsBelow(t, "policy")
	for _, f := range regexp.MustCompile("`(Fuzz[A-Za-z]+)`").FindAllStringSubmatch(string(doc), -1) {
		if !strings.Contains(targets, "\nfunc "+f[1]+"(f *testing.F)") {
			t.Errorf("there is no %s, which docs/enforcement.md names", f[1])
		}
	}
}

// testsBelow is the text of all tests below a folder.
func testsBelow(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
