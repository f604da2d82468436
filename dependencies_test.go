package wallproof

import (
	"os"
	"strings"
	"testing"
)

// Each direct dependency has its reason in docs/dependencies.md.
func TestDependenciesHaveReasons(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.Contains(line, "// indirect") || fields[0] == "go" {
			continue
		}
		direct++
		if !mentions(string(doc), fields[0]) {
			t.Errorf("docs/dependencies.md does not say why %s is there", fields[0])
		}
	}
	if direct < 10 {
		t.Errorf("found %d direct dependencies in go.mod; this test reads it wrongly", direct)
	}
}

// mentions reports whether the table has the module, in full or as one of a
// list of siblings.
func mentions(doc, module string) bool {
	if strings.Contains(doc, module) {
		return true
	}
	i := strings.LastIndex(module, "/")
	return i > 0 && strings.Contains(doc, module[:i]+"/") && strings.Contains(doc, ", "+module[i+1:])
}
