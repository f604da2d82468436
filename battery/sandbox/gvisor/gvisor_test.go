package gvisor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/conformance"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// TestProcessesOnHost looks at the runtime's processes from outside: they hold
// no id of the host's, have a system call filter, and nothing of our
// environment.
func TestProcessesOnHost(t *testing.T) {
	t.Setenv("WALLPROOF_TEST_SECRET", "of the host")
	f := conformance.NewFixture(t, 1<<20)
	state := testStateDir(t)
	id := "wallproof-" + strconv.Itoa(os.Getpid()) + "-host"
	sb, err := New(Options{Runtime: testRuntime(t), StateDir: state}).Start(t.Context(), testSpec(id, f.Rootfs, f.Guest))
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Stop(t.Context())
	// The answer shows that the sandbox is past its own start.
	var answer bytes.Buffer
	if _, err := sb.Exec(t.Context(), sandbox.Command{Argv: []string{"/.wallproof/guest", "ask"}, Stdout: &answer}); err != nil || answer.Len() == 0 {
		t.Fatalf("answer %q, %v", &answer, err)
	}
	pids := pidsOf(t, bundle.Dir(filepath.Join(state, id)).RootArg())
	if len(pids) != 2 {
		t.Errorf("%d processes, want the sandbox and the gofer", len(pids))
	}
	for _, pid := range pids {
		status := procFile(t, pid, "status")
		for _, want := range []string{"Uid:\t1048576\t1048576\t1048576\t1048576", "Gid:\t1048576\t1048576\t1048576\t1048576", "Seccomp:\t2", "NoNewPrivs:\t1"} {
			if !strings.Contains(status, want) {
				t.Errorf("process %s of %s: no %q in\n%s", pid, procFile(t, pid, "comm"), want, status)
			}
		}
		if strings.Contains(procFile(t, pid, "environ"), "WALLPROOF_TEST_SECRET") {
			t.Errorf("process %s has our environment", pid)
		}
	}
}

func pidsOf(t *testing.T, arg string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && bundle.HasArgs(pid, arg) {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

func procFile(t *testing.T, pid, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFindRuntime(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "missing"): "make build", plain: "not an executable file", dir: "not an executable file"} {
		if _, err := findRuntime(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), RuntimeEnv) {
			t.Errorf("%s: %v", path, err)
		}
	}
	private := filepath.Join(dir, "private")
	if err := os.WriteFile(private, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := findRuntime(private); err == nil || !strings.Contains(err.Error(), "chmod 755") {
		t.Errorf("private: %v", err)
	}
	t.Setenv(RuntimeEnv, testRuntime(t))
	p, err := findRuntime("")
	if err != nil || string(p) != testRuntime(t) {
		t.Errorf("from the environment: %s, %v", p, err)
	}
	if v := version(p); !strings.HasPrefix(v, "0.0.0-") {
		t.Errorf("version %q", v)
	}
}

func TestConfigDigestFollowsTheConfiguration(t *testing.T) {
	one, err := configDigest(host{cgroups: bundle.CgroupsV1})
	if err != nil || !strings.HasPrefix(one, "sha256:") {
		t.Fatalf("%s, %v", one, err)
	}
	if two, _ := configDigest(host{cgroups: bundle.CgroupsNone}); two == one {
		t.Error("without control groups the digest is the same")
	}
	if again, _ := configDigest(host{cgroups: bundle.CgroupsV1}); again != one {
		t.Error("the digest is not the same twice")
	}
}

func TestFramer(t *testing.T) {
	long := strings.Repeat("abc", copyFrame)
	for name, src := range map[string]io.Reader{
		"whole": strings.NewReader(long), "byte by byte": iotest.OneByteReader(strings.NewReader("abcabc")),
		"data with the end": iotest.DataErrReader(strings.NewReader(long)), "empty": strings.NewReader(""),
	} {
		f := &framer{src: src}
		b, err := io.ReadAll(iotest.HalfReader(f))
		if err != nil {
			t.Fatal(err)
		}
		got, whole := unframe(b)
		want := map[string]string{"byte by byte": "abcabc", "empty": ""}
		w, ok := want[name]
		if !ok {
			w = long
		}
		if got != w || !whole || f.failed() != nil {
			t.Errorf("%s: %d bytes, whole %v, %v", name, len(got), whole, f.failed())
		}
	}
	broken := &framer{src: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("broke")))}
	b, err := io.ReadAll(broken)
	if _, whole := unframe(b); err != nil || whole || broken.failed() == nil {
		t.Errorf("broken source: whole %v, %v, %v", whole, err, broken.failed())
	}
}

// unframe returns the content and whether the last frame was there.
func unframe(b []byte) (string, bool) {
	var out []byte
	for len(b) >= 4 {
		n := int(binary.BigEndian.Uint32(b))
		if n == 0 {
			return string(out), len(b) == 4
		}
		out = append(out, b[4:4+n]...)
		b = b[4+n:]
	}
	return string(out), false
}

// BenchmarkStart is a bare sandbox's start and stop.
func BenchmarkStart(b *testing.B) {
	f := conformance.NewFixture(b, 1<<20)
	d := New(Options{Runtime: testRuntime(b), StateDir: testStateDir(b)})
	for b.Loop() {
		sb, err := d.Start(b.Context(), testSpec("wallproof-bench-"+strconv.Itoa(os.Getpid()), f.Rootfs, f.Guest))
		if err != nil {
			b.Fatal(err)
		}
		if err := sb.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStateDirMustBePassable(t *testing.T) {
	closed := filepath.Join(testStateDir(t), "..", "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(closed)
	f := conformance.NewFixture(t, 1<<20)
	_, err := New(Options{Runtime: testRuntime(t), StateDir: filepath.Join(closed, "deep")}).Start(t.Context(), testSpec("wallproof-closed", f.Rootfs, f.Guest))
	if err == nil || !strings.Contains(err.Error(), "chmod o+x") {
		t.Errorf("error %v", err)
	}
}
