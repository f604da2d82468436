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
	data, err := os.ReadFile("docs/enforcement.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	named := regexp.MustCompile("(?:([a-z0-9/]+) )?`(Test[A-Za-z0-9]+)(?:/([a-z_]+))?`")
	rows, n := 0, 0
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || cells[len(cells)-1] == "test" {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(tests) == 0 || len(tests) != strings.Count(cells[len(cells)-1], "`")/2 {
			t.Errorf("%d tests are read in %s", len(tests), line)
		}
		folder := ""
		for _, m := range tests {
			if m[1] != "" {
				folder = m[1]
			}
			n++
			if !hasTest(t, folder, m[2], m[3]) {
				t.Errorf("%s has no %s %s, which docs/enforcement.md names", folder, m[2], m[3])
			}
		}
	}
	if rows < 50 || n < 150 {
		t.Errorf("%d rows with %d tests; this test reads the page wrongly", rows, n)
	}
	targets := testsBelow(t, "policy")
	for _, f := range regexp.MustCompile("`(Fuzz[A-Za-z]+)`").FindAllStringSubmatch(doc, -1) {
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
