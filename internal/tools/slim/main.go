// Slim builds the verifier without the code that talks to a network, which neither
// a page nor an auditor's program has a use for:
//
//	go run ./internal/tools/slim go build -o wallproof-verify ./cmd/wallproof-verify
//	go run ./internal/tools/slim darwin/arm64 go build -o wallproof-verify ./cmd/wallproof-verify
//	go run ./internal/tools/slim js/wasm go build -o verify.wasm ./site/wasm
//
// The modules below the verifier mix two things: verification, and clients that
// fetch roots, logs and certificates. For these builds the modules are copied out
// of the module cache, and files and functions of the second kind are left out
// of the copies (see cuts). Hardly anything is rewritten: what remains is the code
// of the released modules, and whatever still used what was left out would not
// compile. A go.work outside the tree points to the copies; they are never
// committed, and no other build sees them. What is built without this does the
// same, and takes longer to load or to start.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func main() {
	args, target := os.Args[1:], ""
	if len(args) > 0 && strings.Contains(args[0], "/") {
		args, target = args[1:], args[0]
	}
	if len(args) < 2 || args[0] != "go" {
		fmt.Fprintln(os.Stderr, "usage: slim [GOOS/GOARCH] go COMMAND [ARGUMENT…]")
		os.Exit(1)
	}
	if err := run(target, args[1:]); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, "slim:", err)
		}
		os.Exit(1)
	}
}

// browser is the target of a page's verifier.
const browser = "js/wasm"

// run runs the go command for a target, "GOOS/GOARCH"; "" is this machine.
func run(target string, args []string) (err error) {
	root, err := output("go", "env", "GOMOD")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wallproof-slim-")
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var work strings.Builder
	fmt.Fprintf(&work, "go %s\n\nuse %q\n", strings.TrimPrefix(runtime.Version(), "go"), filepath.Dir(root))
	for i, c := range cuts {
		if c.browser && target != browser {
			continue
		}
		source, err := output("go", "list", "-m", "-f", "{{.Dir}}", c.module)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strconv.Itoa(i))
		if err := c.copy(source, to); err != nil {
			return fmt.Errorf("copy %s: %w", c.module, err)
		}
		// Relative, because the build notes the path: two builds give the same bytes.
		fmt.Fprintf(&work, "\nreplace %s => ./%d\n", c.module, i)
	}
	file := filepath.Join(dir, "go.work")
	if err := os.WriteFile(file, []byte(work.String()), 0o644); err != nil {
		return fmt.Errorf("write the workspace: %w", err)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK="+file)
	if system, architecture, ok := strings.Cut(target, "/"); ok {
		cmd.Env = append(cmd.Env, "GOOS="+system, "GOARCH="+architecture)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// copy copies a module's Go files and what they embed, but for tests and what is
// cut. A cut that meets nothing is an error: the module has changed, and the
// list must be looked at.
func (c cut) copy(from, to string) error {
	met := map[string]bool{}
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if strings.HasSuffix(rel, "_test.go") || c.drops(rel, met) {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if data, err = c.edit(rel, data, met); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
	if err != nil {
		return err
	}
	for name, text := range c.added {
		p := filepath.Join(to, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	for _, want := range c.wanted() {
		if !met[want] {
			return fmt.Errorf("%s is not there any more: see whether the cut is still needed", want)
		}
	}
	return nil
}

// drops tells whether a file is left out.
func (c cut) drops(file string, met map[string]bool) bool {
	if _, replaced := c.instead[file]; replaced {
		return false
	}
	for _, pattern := range c.files {
		if ok, err := path.Match(pattern, file); ok && err == nil {
			met[pattern] = true
			return true
		}
	}
	for dir, keep := range c.only {
		if path.Dir(file) == dir && path.Ext(file) == ".go" && !slices.Contains(keep, path.Base(file)) {
			return true
		}
		if path.Dir(file) == dir && slices.Contains(keep, path.Base(file)) {
			met[dir+"/"+path.Base(file)] = true
		}
	}
	return false
}

// edit takes functions out of a file, or puts another file in its place.
func (c cut) edit(file string, data []byte, met map[string]bool) ([]byte, error) {
	if text, ok := c.instead[file]; ok {
		met[file] = true
		return []byte(text), nil
	}
	for from, to := range c.imports {
		if path.Ext(file) == ".go" {
			data = bytes.ReplaceAll(data, []byte(strconv.Quote(from)), []byte(strconv.Quote(to)))
		}
	}
	names := c.functions[file]
	if len(names) == 0 {
		return data, nil
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, data, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	removed := map[string]bool{}
	f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
		name := declared(d)
		if !slices.Contains(names, name) {
			return false
		}
		removed[name] = true
		dropComments(f, d)
		return true
	})
	for _, n := range names {
		if !removed[n] {
			return nil, fmt.Errorf("%s has no %s any more: see whether the cut is still needed", file, n)
		}
	}
	met[file] = true
	dropImports(f)
	var out bytes.Buffer
	if err := printer.Fprint(&out, set, f); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// declared is the name of a function, or of a type declared alone; a method is
// named "Receiver.Method".
func declared(d ast.Decl) string {
	switch x := d.(type) {
	case *ast.FuncDecl:
		if x.Recv == nil {
			return x.Name.Name
		}
		t := x.Recv.List[0].Type
		if s, ok := t.(*ast.StarExpr); ok {
			t = s.X
		}
		if id, ok := t.(*ast.Ident); ok {
			return id.Name + "." + x.Name.Name
		}
	case *ast.GenDecl:
		if len(x.Specs) == 1 {
			if t, ok := x.Specs[0].(*ast.TypeSpec); ok {
				return t.Name.Name
			}
		}
	}
	return ""
}

// dropComments takes the comments of a declaration away with it.
func dropComments(f *ast.File, d ast.Decl) {
	from, to := d.Pos(), d.End()
	if fn, ok := d.(*ast.FuncDecl); ok && fn.Doc != nil {
		from = fn.Doc.Pos()
	}
	if g, ok := d.(*ast.GenDecl); ok && g.Doc != nil {
		from = g.Doc.Pos()
	}
	f.Comments = slices.DeleteFunc(f.Comments, func(c *ast.CommentGroup) bool { return c.Pos() >= from && c.End() <= to })
}

// dropImports takes away the imports that nothing uses any more.
func dropImports(f *ast.File) {
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				used[id.Name] = true
			}
		}
		return true
	})
	unused := func(s *ast.ImportSpec) bool {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			return false
		}
		if s.Name != nil {
			return s.Name.Name != "_" && s.Name.Name != "." && !used[s.Name.Name]
		}
		return !used[packageName(p)]
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			g.Specs = slices.DeleteFunc(g.Specs, func(s ast.Spec) bool { return unused(s.(*ast.ImportSpec)) })
		}
	}
	f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
		g, ok := d.(*ast.GenDecl)
		return ok && g.Tok == token.IMPORT && len(g.Specs) == 0
	})
}

// packageName guesses a package's name from its path, as the modules concerned
// name theirs.
func packageName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return strings.TrimPrefix(base, "go-")
}
