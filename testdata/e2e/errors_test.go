//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/wallproof/wallproof/battery/image"
	"golang.org/x/sys/unix"
)

// writeLayout writes the demo image as an OCI layout.
func writeLayout(t testing.TB, dir string) {
	t.Helper()
	agent, err := os.ReadFile(filepath.Join(bin(t), "wallproof-agent"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := image.Demo(agent, image.DemoOptions{Shell: true})
	if err != nil {
		t.Fatal(err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"})); err != nil {
		t.Fatal(err)
	}
}

// Test4Errors: each mistake is a clear error with exit code 1 and leaves nothing.
func Test4Errors(t *testing.T) {
	layout, policy := fixtures(t)
	dir := t.TempDir()
	typo := filepath.Join(dir, "typo.yaml")
	if err := os.WriteFile(typo, []byte("version: 1\nmode: allowlist\nallow:\n  - hosst: github.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	tests := []struct {
		name   string
		args   []string
		stderr []string
	}{
		{"mistyped policy key", []string{"run", "--image", layout, "--policy", typo, "--out", out}, []string{"typo.yaml:4:5", "hosst"}},
		{"tag instead of digest", []string{"run", "--image", "127.0.0.1:1/app:latest", "--policy", policy, "--out", out}, []string{"by tag", "sha256"}},
		{"missing image", []string{"run", "--image", filepath.Join(dir, "nowhere"), "--policy", policy, "--out", out}, []string{"nowhere"}},
		{"registry that is not there", []string{"run", "--image", "127.0.0.1:1/app@sha256:" + strings.Repeat("0", 64), "--policy", policy, "--out", out}, []string{"reach"}},
		{"missing policy", []string{"run", "--image", layout, "--policy", filepath.Join(dir, "no.yaml"), "--out", out}, []string{"no.yaml"}},
		{"no output folder", []string{"run", "--image", layout, "--policy", policy}, []string{"--out"}},
		{"unknown technique", []string{"run", "--image", layout, "--policy", policy, "--out", out, "--only", "NET-NOPE"}, []string{"NET-NOPE", "probes list"}},
		{"unknown vector", []string{"run", "--image", layout, "--policy", policy, "--out", out, "--vector", "XYZ"}, []string{"XYZ", "TOK"}},
		{"nothing left to run", []string{"run", "--image", layout, "--policy", policy, "--out", out, "--only", "NET-TCP", "--skip", "net-tcp"}, []string{"no technique", "--skip"}},
		{"no runs", []string{"run", "--image", layout, "--policy", policy, "--out", out, "--repeat", "0"}, []string{"--repeat 0", "at least 1"}},
		{"unknown driver", []string{"run", "--image", layout, "--policy", policy, "--out", out, "--driver", "none"}, []string{"gvisor"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := wallproof(t, tt.args...)
			if r.code != 1 {
				t.Errorf("want exit code 1: %s", r)
			}
			for _, want := range tt.stderr {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("the error lacks %q: %s", want, r)
				}
			}
			if strings.Contains(r.stderr, "goroutine") {
				t.Errorf("a stack trace: %s", r)
			}
			if _, err := os.Stat(out); err == nil {
				t.Errorf("%s was created although nothing was run", out)
			}
		})
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Test5FullDisk: a run that cannot write its evidence says so, and leaves a
// packet that never verifies.
func Test5FullDisk(t *testing.T) {
	layout, policy := fixtures(t)
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	out := filepath.Join(small, "out")
	r := wallproof(t, "run", "--image", layout, "--policy", policy, "--out", out)
	if r.code != 1 || !strings.Contains(r.stderr, "disk is full") {
		t.Errorf("a full disk: %s", r)
	}
	if r := wallproof(t, "verify", filepath.Join(out, "packet"), "--key", policy); r.code == 0 {
		t.Errorf("its packet verifies: %s", r)
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Test6NotRoot: without root each command that needs it says so in one sentence.
func Test6NotRoot(t *testing.T) {
	dir, err := os.MkdirTemp("", "wallproof-e2e-") // t.TempDir lies below a folder that others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wallproof", "wallproof-boundary"} {
		data, err := os.ReadFile(filepath.Join(bin(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "wallproof")
	for _, name := range []string{"run", "exec", "demo", "gc"} {
		cmd := exec.Command(self, name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "needs root") || strings.Count(strings.TrimSpace(stderr.String()), "\n") > 0 {
			t.Errorf("%s without root: %v: %s", name, err, stderr.String())
		}
	}
}

// Test7Exec: a command in the boundary keeps its exit code and its output, and
// reaches nothing that the policy does not name.
func Test7Exec(t *testing.T) {
	layout, policy := fixtures(t)
	for _, kv := range []string{"API_TOKEN=api-token-value-1", "SEARCH_KEY=search-key-value-2"} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	noBroker := filepath.Join(t.TempDir(), "policy.yaml")
	data, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	cut, _, _ := strings.Cut(string(data), "# Pushes go out")
	if err := os.WriteFile(noBroker, []byte(cut), 0o644); err != nil {
		t.Fatal(err)
	}
	r := wallproof(t, "exec", "--image", layout, "--policy", noBroker, "--", "sh", "-c", "echo inside; env; exit 7")
	if r.code != 7 || !strings.Contains(r.stdout, "inside") {
		t.Errorf("exec: %s", r)
	}
	if strings.Contains(r.stdout, "value-1") || strings.Contains(r.stdout, "value-2") {
		t.Errorf("a secret is inside: %s", r)
	}
	if !strings.Contains(r.stdout, "API_TOKEN=") {
		t.Errorf("the placeholder is not inside: %s", r)
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
