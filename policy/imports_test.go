package policy

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The language and its evaluator are pure: they are linked into the verifier,
// into a page, and into the proxy, and must not be able to read a file, open a
// socket or start a process in any of them. What they need of the world they are
// given as bytes and functions.
func TestPure(t *testing.T) {
	forbidden := []string{"net", "os", "syscall", "plugin", "unsafe", "golang.org/x/sys", "log", "crypto/rand", "math/rand"}
	allowed := map[string]bool{"net/netip": true}
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "proxy" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			for _, bad := range forbidden {
				if (name == bad || strings.HasPrefix(name, bad+"/")) && !allowed[name] {
					t.Errorf("%s imports %s", path, name)
				}
			}
		}
		return nil
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
}
