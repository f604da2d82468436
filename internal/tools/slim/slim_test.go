package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `// Package x is a sample.
package x

import (
	"fmt"
	"net/http"

	semver "example.org/semver/v2"
	"example.org/go-tool"
)

// Keep stays.
func Keep() string { return fmt.Sprint(tool.Name) }

// Fetch goes, with its comment.
func Fetch(u string) error { _, err := http.Get(u); return err }

// Client goes.
type Client struct{}

// Do goes.
func (c *Client) Do() string { return semver.New() }
`

func copied(t *testing.T, c cut) (string, error) {
	t.Helper()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for name, content := range map[string]string{
		"go.mod": "module example.org/x\n", "a.go": source, "a_test.go": "package x\n", "net/client.go": "package net\n", "net/keep.go": "package net\n", "data.txt": "x",
	} {
		p := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to, c.copy(from, to)
}

func TestCut(t *testing.T) {
	to, err := copied(t, cut{
		files: []string{"net/client.go"}, functions: map[string][]string{"a.go": {"Fetch", "Client", "Client.Do"}},
		added: map[string]string{"new/new.go": "package new\n"}, instead: map[string]string{"net/keep.go": "package net // another\n"}, imports: map[string]string{"fmt": "example.org/fmt"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(to, "a.go"))
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	for _, gone := range []string{"Fetch", "Client", "net/http", "semver", "goes"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s is left in\n%s", gone, got)
		}
	}
	for _, kept := range []string{"Keep stays", "example.org/go-tool", `"example.org/fmt"`} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is not left in\n%s", kept, got)
		}
	}
	for name, want := range map[string]bool{"go.mod": true, "data.txt": true, "new/new.go": true, "net/keep.go": true, "net/client.go": false, "a_test.go": false} {
		if _, err := os.Stat(filepath.Join(to, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStale: a cut that meets nothing says so, because the module has changed.
func TestStale(t *testing.T) {
	for name, c := range map[string]cut{
		"file":     {files: []string{"gone.go"}},
		"function": {functions: map[string][]string{"a.go": {"Gone"}}},
		"place":    {functions: map[string][]string{"gone.go": {"Fetch"}}},
		"instead":  {instead: map[string]string{"gone.go": "package x\n"}},
		"only":     {only: map[string][]string{"net": {"gone.go"}}},
	} {
		if _, err := copied(t, c); err == nil || !strings.Contains(err.Error(), "any more") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
