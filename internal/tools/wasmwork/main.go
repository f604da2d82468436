// Wasmwork runs a go command for js/wasm in a temporary workspace:
//
//	go run ./internal/tools/wasmwork go build -o verify.wasm ./some/main
//
// One module below the verifier, in-toto-golang, has a file whose build
// constraint lets js through although it calls access(2), which js does not
// have. Nothing here calls that function. So the module is copied out of the
// module cache, the one file is replaced in the copy, and a go.work outside the
// tree points to it. Nothing of this is ever committed; without the workspace
// the build for other systems is untouched.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	module  = "github.com/in-toto/in-toto-golang"
	blocked = "in_toto/util_unix.go"
)

// replacement takes the file's place in the copy. It refuses, which is true: a
// browser has no folder to write to.
const replacement = `package in_toto

import "errors"

func isWritable(string) error { return errors.New("no file system") }
`

func main() {
	if len(os.Args) < 3 || os.Args[1] != "go" {
		fmt.Fprintln(os.Stderr, "usage: wasmwork go COMMAND [ARGUMENT…]")
		os.Exit(1)
	}
	if err := run(os.Args[2:]); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, "wasmwork:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	goVersion := strings.TrimPrefix(runtime.Version(), "go")
	root, err := output("go", "env", "GOMOD")
	if err != nil {
		return err
	}
	source, err := output("go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wallproof-wasm-")
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyModule(source, filepath.Join(dir, "in-toto-golang")); err != nil {
		return fmt.Errorf("copy %s: %w", module, err)
	}
	work := fmt.Sprintf("go %s\n\nuse %q\n\nreplace %s => %q\n", goVersion, filepath.Dir(root), module, filepath.Join(dir, "in-toto-golang"))
	file := filepath.Join(dir, "go.work")
	if err := os.WriteFile(file, []byte(work), 0o644); err != nil {
		return fmt.Errorf("write the workspace: %w", err)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK="+file)
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

// copyModule copies the Go files of a module, but for tests, with the one file
// replaced.
func copyModule(from, to string) error {
	replaced := false
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		if d.IsDir() {
			if d.Name() == "testdata" || d.Name() == "test" {
				return filepath.SkipDir
			}
			return os.MkdirAll(dest, 0o755)
		}
		if filepath.Base(path) != "go.mod" && (filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go")) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.ToSlash(rel) == blocked {
			replaced, data = true, []byte(replacement)
		}
		return os.WriteFile(dest, data, 0o644)
	})
	if err == nil && !replaced {
		err = fmt.Errorf("has no %s any more: see whether this tool is still needed", blocked)
	}
	return err
}
