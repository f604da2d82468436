package verify

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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
