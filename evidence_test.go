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
	rows, n := testedRows(t, "docs/evidence.md")
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

// Each row of docs/trust-page.md names tests that exist, and each case and detail that
// concerns the page has a row.
func TestTrustPageHasTests(t *testing.T) {
	rows, n := testedRows(t, "docs/trust-page.md")
	for _, id := range []string{"D2", "D6", "D7", "D8", "D9", "D11", "D22", "D24", "E20", "E21", "E22", "E24"} {
		if !rows[id] {
			t.Errorf("%s has no row", id)
		}
	}
	if n < 70 {
		t.Errorf("%d tests named; this test reads the page wrongly", n)
	}
	for _, row := range []string{"| a | no folder `TestNoSuch` |", "| a | site `TestNoSuch` |", "| a | site/test `TestBrowser` (nosuch/index) |", "| a | site/test `TestBrowser` (stale/nosuch) |", "| a | none |", "| a | site `TestRows` `Tset` |"} {
		if _, err := testsOf(t, row); err == nil {
			t.Errorf("%s is accepted", row)
		}
	}
}

// testedRows reads the tables of a page whose rows name tests in their last cell, and
// holds each name against the sources. It returns the first cells, and how many tests
// were named.
func testedRows(t *testing.T, page string) (rows map[string]bool, n int) {
	t.Helper()
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		cells := cellsOf(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || cells[len(cells)-1] == "test" {
			continue
		}
		rows[cells[0]] = true
		more, err := testsOf(t, line)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		n += more
	}
	return rows, n
}

func cellsOf(line string) []string { return strings.Split(strings.Trim(line, "| \n"), " | ") }

// named is a test with its folder, where that is not the one before; a script; or checks
// of pages in a browser.
var named = regexp.MustCompile("(?:([a-z0-9/-]+) )?`(Test[A-Za-z0-9]+)(?:/([a-z_]+))?`(?: \\(([a-z0-9/, -]+)\\))?")

// testsOf counts the tests that a row names, or says which of them does not exist.
func testsOf(t *testing.T, line string) (int, error) {
	t.Helper()
	cells := cellsOf(line)
	tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
	if len(tests) == 0 || len(tests) != strings.Count(cells[len(cells)-1], "`")/2 {
		return 0, fmt.Errorf("%d tests are read in %s", len(tests), line)
	}
	folder, n := "", 0
	for _, m := range tests {
		if m[1] != "" {
			folder = m[1]
		}
		n++
		if !hasTest(t, folder, m[2], m[3]) {
			return n, fmt.Errorf("%s has no %s %s", folder, m[2], m[3])
		}
		for check := range strings.SplitSeq(m[4], ", ") {
			if check != "" && !hasCheck(t, check) {
				return n, fmt.Errorf("no check %s of pages in a browser", check)
			}
		}
	}
	return n, nil
}

// hasCheck tells whether a check of pages is planned, by its name or the beginning of it:
// one of check.mjs, on something that the plan names.
func hasCheck(t *testing.T, check string) bool {
	t.Helper()
	plan, err := os.ReadFile("site/test/browser_test.go")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("site/test/browser/check.mjs")
	if err != nil {
		t.Fatal(err)
	}
	kind, of, _ := strings.Cut(check, "/")
	if !bytes.Contains(script, []byte("\n  async "+kind+"(")) || !bytes.Contains(plan, []byte(`"`+kind)) {
		return false
	}
	return of == "" || bytes.Contains(plan, []byte(`"`+of+`"`)) || bytes.Contains(plan, []byte(`"`+check+`"`)) || bytes.Contains(plan, []byte(`"`+check+`/`))
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
