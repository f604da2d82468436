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

var row = regexp.MustCompile("(?m)^\\| (.+) \\| ([a-z0-9/]+) `(Test[A-Za-z0-9]+)` \\|$")

// Every row of the document is the name of a test, and every test of the two
// systems has its row.
func TestEveryPromiseHasATestNamedAfterIt(t *testing.T) {
	doc, err := os.ReadFile("../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(doc), -1)
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
