// Package examples checks that the examples are policies, and that docs/systems.md
// names tests that there are.
package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy"
)

func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Parse(f, b)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := policy.Compile(p); err != nil {
			t.Error(err)
		}
	}
}

var row = regexp.MustCompile("(?m)^\\| ([^|]+) \\| ([a-z0-9/]+) `(Test[A-Za-z0-9]+)` \\|$")

// Every row of the document is the name of a test, and every test of the two
// systems has its row.
func TestEveryPromiseHasATestNamedAfterIt(t *testing.T) {
	doc, err := os.ReadFile("../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	promises, _, _ := strings.Cut(string(doc), "\n## Details\n")
	rows := row.FindAllStringSubmatch(promises, -1)
	if len(rows) < 30 {
		t.Fatalf("%d rows", len(rows))
	}
	listed := map[string]bool{}
	for _, r := range rows {
		listed[r[1]] = true
		if !strings.Contains(source(t, r[2]), "t.Run("+quote(r[1])+",") {
			t.Errorf("%s has no test named %q", r[2], r[1])
		}
		if !strings.Contains(source(t, r[2]), "func "+r[3]+"(") {
			t.Errorf("%s has no %s", r[2], r[3])
		}
	}
	for _, m := range regexp.MustCompile(`t\.Run\("([^"]+)"`).FindAllStringSubmatch(source(t, "testdata/e2e/systems_test.go"), -1) {
		if !listed[m[1]] {
			t.Errorf("the test %q has no row in docs/systems.md", m[1])
		}
	}
}

// details are the rows of the design's list that are about the policy and the proxy.
var details = []string{"D10", "D12", "D13", "D14", "D15", "D16", "D17", "D18", "D19", "D23", "D25", "D26", "D27", "D28", "D30", "D31", "D32", "D33"}

var (
	detail  = regexp.MustCompile("(?m)^\\| (D[0-9]+|[a-z][^|]+) \\| (?:[^|]+ \\| )?([a-z0-9/]+ `Test[^|]+) \\|$")
	itsTest = regexp.MustCompile("([a-z0-9/]+) `(Test[A-Za-z0-9]+)`")
)

// Every detail and every decision names tests that there are.
func TestEveryDetailHasATest(t *testing.T) {
	doc, err := os.ReadFile("../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(doc), "\n## Details\n")
	if !found {
		t.Fatal("docs/systems.md has no details")
	}
	rows := detail.FindAllStringSubmatch(text, -1)
	listed := map[string]bool{}
	for _, r := range rows {
		listed[r[1]] = true
		tests := itsTest.FindAllStringSubmatch(r[2], -1)
		if len(tests) != strings.Count(r[2], "`")/2 || len(tests) == 0 {
			t.Errorf("%s: %s", r[1], r[2])
		}
		for _, one := range tests {
			if !strings.Contains(source(t, one[1]), "func "+one[2]+"(") {
				t.Errorf("%s: %s has no %s", r[1], one[1], one[2])
			}
		}
	}
	for _, id := range details {
		if !listed[id] {
			t.Errorf("%s has no row", id)
		}
	}
	if want := strings.Count(text, "\n| ") - 2; len(rows) != want-2 {
		t.Errorf("%d of %d rows were read", len(rows), want-2)
	}
}

func quote(s string) string { return `"` + s + `"` }

// source is the text of a folder's tests, or of one file.
func source(t *testing.T, dir string) string {
	t.Helper()
	files := []string{filepath.Join("..", dir)}
	if !strings.HasSuffix(dir, ".go") {
		var err error
		if files, err = filepath.Glob(filepath.Join("..", dir, "*_test.go")); err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", dir, err)
		}
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
