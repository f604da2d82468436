package wallproof

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of docs/evidence.md names tests that exist, and each case and detail that
// concerns evidence has a row.
func TestEvidenceHasTests(t *testing.T) {
	doc, err := os.ReadFile("docs/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	named := regexp.MustCompile("(?:([a-z0-9/-]+) )?`(Test[A-Za-z0-9]+)(?:/([a-z_]+))?`")
	n := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || cells[len(cells)-1] == "test" {
			continue
		}
		rows[cells[0]] = true
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(tests) == 0 {
			t.Errorf("no test in %s", line)
		}
		folder := ""
		for _, m := range tests {
			if m[1] != "" {
				folder = m[1]
			}
			n++
			if !hasTest(t, folder, m[2], m[3]) {
				t.Errorf("%s has no %s %s, which docs/evidence.md names", folder, m[2], m[3])
			}
		}
	}
	for i := 1; i <= 23; i++ {
		if id := fmt.Sprintf("E%d", i); !rows[id] && (i < 20 || i == 23) { // the others are the page's
			t.Errorf("case %s has no row", id)
		}
	}
	for _, i := range []int{1, 2, 3, 4, 5, 6, 20, 23, 24, 35} {
		if !rows[fmt.Sprintf("D%d", i)] {
			t.Errorf("detail D%d has no row", i)
		}
	}
	if n < 60 {
		t.Errorf("%d tests named; this test reads the page wrongly", n)
	}
}

// hasTest tells whether a folder has a test; of those that run scripts, a script.
func hasTest(t *testing.T, folder, name, script string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || folder == "" {
		t.Fatalf("%q: %v", folder, err)
	}
	if script != "" {
		if _, err := os.Stat(filepath.Join(folder, "testdata", "script", script+".txtar")); err != nil {
			return false
		}
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("\nfunc "+name+"(t *testing.T)")) {
			return true
		}
	}
	return false
}
