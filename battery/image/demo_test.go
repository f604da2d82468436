package image

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestDemoIsReproducible(t *testing.T) {
	build := func(agent string, o DemoOptions) string {
		img, err := Demo([]byte(agent), o)
		if err != nil {
			t.Fatal(err)
		}
		return mustDigest(t, img)
	}
	full := func() DemoOptions {
		return DemoOptions{Shell: true, Files: map[string][]byte{"/a/b": []byte("1"), "c": []byte("2"), "d/e/f": nil}, Env: []string{"X=1"}, Labels: map[string]string{"l": "1", "k": "2"}}
	}
	if a, b := build("agent", full()), build("agent", full()); a != b {
		t.Errorf("same input, but %s and %s", a, b)
	}
	// The digest of a fixed input never changes; when it must, this is the place.
	const fixed = "sha256:4f8af4fb4467f0cc66b225c870776b1e472310cf6537a2ccfd39591eb407475e"
	if got := build("agent", full()); runtime.GOARCH == "amd64" && got != fixed {
		t.Errorf("digest of the fixed input is %s", got)
	}
	seen := map[string]bool{build("agent", full()): true}
	for name, change := range map[string]func(*DemoOptions){
		"shell": func(o *DemoOptions) { o.Shell = false }, "files": func(o *DemoOptions) { o.Files["c"] = nil },
		"env": func(o *DemoOptions) { o.Env = nil }, "labels": func(o *DemoOptions) { o.Labels = nil },
	} {
		o := full()
		change(&o)
		d := build("agent", o)
		if seen[d] {
			t.Errorf("another %s, but the same digest", name)
		}
		seen[d] = true
	}
	if build("agent2", full()) == build("agent", full()) {
		t.Error("another agent, but the same digest")
	}
	if _, err := Demo(nil, DemoOptions{}); err == nil {
		t.Error("made without an agent")
	}
	if _, err := Demo([]byte("x"), DemoOptions{Files: map[string][]byte{"/..": nil}}); err == nil {
		t.Error("made with a file that has no name")
	}
}

func TestDemoPulledByDigest(t *testing.T) {
	img, err := Demo([]byte("#!agent"), DemoOptions{Shell: true, Files: map[string][]byte{"workspace/notes/n.txt": []byte("note")}, Env: []string{"X=1"}})
	if err != nil {
		t.Fatal(err)
	}
	addr, stop, err := ServeRegistry(t.Context(), map[string]v1.Image{"demo/agent": img})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r, err := Resolve(t.Context(), addr+"/demo/agent@"+mustDigest(t, img), Options{Keychain: anonymous{}})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Config.Config; c.User != "1000:1000" || !slices.Contains(c.Env, "X=1") || c.WorkingDir != "/workspace" || !slices.Equal(c.Cmd, []string{"/bin/wallproof-agent"}) {
		t.Errorf("configuration %+v", c)
	}
	out := filepath.Join(t.TempDir(), "rootfs")
	if _, err := Unpack(t.Context(), r, out, unpackOptions()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(describe(t, out), "\n")
	for _, want := range []string{
		`bin/wallproof-agent -rwxr-xr-x 0:0 "#!agent"`, "bin/sh Lrwxrwxrwx 0:0 -> wallproof-agent", "bin/env Lrwxrwxrwx 0:0 -> wallproof-agent",
		"tmp dtrwxrwxrwx 0:0", "root drwx------ 0:0", "home drwxr-xr-x 0:0", "home/agent drwxr-xr-x 1000:1000", "workspace drwxr-xr-x 1000:1000",
		`workspace/notes/n.txt -rw-r--r-- 1000:1000 "note"`, "etc/passwd ", "etc/group ", "etc/os-release ", "workspace/README.md ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for range 2 {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Resolve(t.Context(), r.Reference, Options{Keychain: anonymous{}}); err == nil {
		t.Error("the registry still answers")
	}
}
