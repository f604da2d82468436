package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	caseRow  = regexp.MustCompile(`(?m)^\| ([BD][0-9]+) \| [^|]+ \| ([^|]+) \| ([^|]*)\|$`)
	seeded   = regexp.MustCompile("`([a-z0-9-]+)`")
	ofCases  = []string{"D15", "D21", "D22"}
	lastCase = 24
)

// docs/cases.md has every case, with tests and seeded breaks that there are.
func TestEveryCaseHasATest(t *testing.T) {
	doc, err := os.ReadFile("../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string(nil), ofCases...)
	for i := range lastCase {
		want = append(want, fmt.Sprintf("B%d", i+1))
	}
	rows := caseRow.FindAllStringSubmatch(string(doc), -1)
	if len(rows) != len(want) || len(rows) != strings.Count(string(doc), "\n| ")-2 {
		t.Errorf("%d rows were read, want %d", len(rows), len(want))
	}
	listed := map[string]bool{}
	for _, r := range rows {
		listed[r[1]] = true
		tests := itsTest.FindAllStringSubmatch(r[2], -1)
		if len(tests) == 0 || len(tests) != strings.Count(r[2], "`")/2 {
			t.Errorf("%s: %s", r[1], r[2])
		}
		for _, one := range tests {
			if !strings.Contains(source(t, one[1]), "func "+one[2]+"(") {
				t.Errorf("%s: %s has no %s", r[1], one[1], one[2])
			}
		}
		for _, b := range seeded.FindAllStringSubmatch(r[3], -1) {
			if _, err := os.Stat(filepath.Join("../testdata/breaks", b[1]+".yaml")); err != nil {
				t.Errorf("%s: %v", r[1], err)
			}
		}
	}
	for _, id := range want {
		if !listed[id] {
			t.Errorf("%s has no row", id)
		}
	}
}
