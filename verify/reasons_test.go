package verify

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go test with -update", path)
	}
}

func TestReasonsDocumentIsCurrent(t *testing.T) {
	golden(t, filepath.FromSlash("../docs/formats/reasons.md"), ReasonsMarkdown())
}

// constants returns the values of all string constants of a type in a folder.
func constants(t *testing.T, dir, typ string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	var out []string
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ && len(spec.Values) == 1 {
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
					v, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, v)
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("no constants of type %s in %s", typ, dir)
	}
	return out
}

func TestEveryReasonIsDocumentedOnce(t *testing.T) {
	documented := map[Code]int{}
	for _, r := range Reasons() {
		documented[r.Code]++
		if r.Meaning == "" || (r.Status != Pass && r.Next == "" && r.Status != NotChecked) {
			t.Errorf("%s lacks its meaning or what to do", r.Code)
		}
	}
	all := constants(t, ".", "Code")
	for _, dir := range []string{"../attest/packet", "../attest/manifest", "../internal/canon"} {
		all = append(all, constants(t, dir, "Reason")...)
	}
	for _, c := range all {
		if documented[Code(c)] != 1 {
			t.Errorf("%s is documented %d times", c, documented[Code(c)])
		}
		delete(documented, Code(c))
	}
	for c := range documented {
		t.Errorf("%s is documented and does not exist", c)
	}
}

// Every code is demanded of some input by a test: by its constant, or, of what the
// programs print, by itself.
func TestEveryReasonIsReached(t *testing.T) {
	var tests []byte
	for _, pattern := range []string{"*_test.go", "render/*_test.go", "../site/*_test.go", "../attest/*_test.go", "../attest/*/*_test.go", "../internal/canon/*_test.go", "../cmd/wallproof/testdata/script/*.txtar"} {
		list, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %v, %v", pattern, list, err)
		}
		for _, name := range list {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests = append(append(tests, data...), '\n')
		}
	}
	names := map[string]string{}
	for _, dir := range []string{".", "../attest/packet", "../attest/manifest", "../internal/canon"} {
		constantNames(t, dir, names)
	}
	for _, r := range Reasons() {
		name := names[string(r.Code)]
		if name == "" {
			t.Errorf("%s has no constant", r.Code)
		} else if !regexp.MustCompile(`\b` + name + `\b|(\A|[^\w-])` + regexp.QuoteMeta(string(r.Code)) + `(\z|[^\w-])`).Match(tests) {
			t.Errorf("no test demands %s (%s) of any input", r.Code, name)
		}
	}
}

// constantNames adds the names of the string constants of type Code or Reason by
// their values.
func constantNames(t *testing.T, dir string, out map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\t((?:Code|Reason)\w+)\s+(?:Code|Reason)\s*=\s*"([^"]+)"`).FindAllSubmatch(data, -1) {
			out[string(m[2])] = string(m[1])
		}
	}
}
