package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// execTimeout is far beyond what any command of the suite needs; it only keeps
// a broken driver from hanging the test.
const execTimeout = time.Minute

type result struct {
	exit           int
	stdout, stderr string
	err            error
}

// try runs the guest program.
func try(t *testing.T, sb sandbox.Sandbox, change func(*sandbox.Command), args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := sandbox.Command{Argv: append([]string{guestPath}, args...), Stdout: &stdout, Stderr: &stderr, Timeout: execTimeout}
	if change != nil {
		change(&c)
	}
	exit, err := sb.Exec(t.Context(), c)
	return result{exit: exit, stdout: stdout.String(), stderr: stderr.String(), err: err}
}

// must is try where anything but success is a failure of the test.
func must(t *testing.T, sb sandbox.Sandbox, args ...string) string {
	t.Helper()
	return mustAs(t, sb, nil, args...)
}

func mustAs(t *testing.T, sb sandbox.Sandbox, change func(*sandbox.Command), args ...string) string {
	t.Helper()
	r := try(t, sb, change, args...)
	if r.err != nil || r.exit != 0 {
		t.Fatalf("%v: exit %d, %v; stderr: %s", args, r.exit, r.err, r.stderr)
	}
	return r.stdout
}

func asRoot(c *sandbox.Command) { c.User = &sandbox.User{} }

// nothingLeft looks for anything on the host that carries the sandbox's id.
func (s *suite) nothingLeft(t *testing.T, id string) {
	t.Helper()
	for _, what := range s.left(t, id) {
		t.Errorf("left behind by %s: %s", id, what)
	}
}

func (s *suite) left(t *testing.T, id string) []string {
	t.Helper()
	var left []string
	for _, line := range cmdlines(t) {
		if strings.Contains(line, id) {
			left = append(left, "process "+line)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(id)) {
		left = append(left, "a mount")
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + id, "/sys/fs/cgroup/*/" + id} {
		groups, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, groups...)
	}
	if s.fix.StateDir != "" {
		if _, err := os.Lstat(filepath.Join(s.fix.StateDir, id)); err == nil {
			left = append(left, "its folder below "+s.fix.StateDir)
		}
	}
	return left
}

// cmdlines are the arguments of every process on the host, by its id.
func cmdlines(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			lines[filepath.Base(filepath.Dir(f))] = strings.ReplaceAll(string(b), "\x00", " ")
		}
	}
	return lines
}

// sameProcesses says whether a process is in the test's own process namespace.
func sameProcesses(t *testing.T, pid string) bool {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	its, err := os.Readlink("/proc/" + pid + "/ns/pid")
	return err == nil && its == own
}
