package verify

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/canon"
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

// elsewhere are the codes that no report of this package has, and the tests in
// which they come out: the site's, of a packet that it cannot open; that of what is
// written and not read; and one that a report names within another's message.
var elsewhere = map[Code]struct{ file, name string }{
	CodePacketUnreadable:             {"../site/buildmore_test.go", "verify.CodePacketUnreadable"},
	Code(canon.ReasonUnmarshallable): {"../internal/canon/canon_test.go", "ReasonUnmarshallable"},
	Code(packet.ReasonDocument):      {"everyreason_test.go", "packet.ReasonDocument"},
}

func TestReasonsThatComeOutElsewhere(t *testing.T) {
	for code, where := range elsewhere {
		data, err := os.ReadFile(where.file)
		if err != nil || !bytes.Contains(data, []byte(where.name)) {
			t.Errorf("%s: %s does not demand %s (%v)", code, where.file, where.name, err)
		}
	}
}

// TestMain watches the codes of all reports that the tests make. Where all tests
// ran, every documented code must have come out of some input.
func TestMain(m *testing.M) {
	var mu sync.Mutex
	seen := map[Code]bool{}
	testHookLine = func(c Code) {
		mu.Lock()
		defer mu.Unlock()
		seen[c] = true
	}
	rc := m.Run()
	if rc == 0 && allTests() {
		rc = reportUnreached(seen)
	}
	os.Exit(rc)
}

// allTests tells whether the flags leave no test out.
func allTests() bool {
	for _, name := range []string{"run", "skip", "fuzz", "list"} {
		if flag.Lookup("test."+name).Value.String() != "" {
			return false
		}
	}
	return true
}

// reportUnreached returns the exit code: 1 where a documented code never came out.
func reportUnreached(seen map[Code]bool) int {
	rc := 0
	for _, r := range Reasons() {
		_, other := elsewhere[r.Code]
		if seen[r.Code] != other {
			continue
		}
		rc = 1
		if other {
			fmt.Printf("FAIL: %s came out here, and is listed as coming out elsewhere\n", r.Code)
		} else {
			fmt.Printf("FAIL: no input of any test made a report with the reason %s\n", r.Code)
		}
	}
	return rc
}
