//go:build e2e

// Package e2e runs the built binaries as root, in namespaces that they make
// themselves: the whole main job, what happens when it is interrupted, and the
// seeded breaks.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// timeout bounds one command.
const timeout = 5 * time.Minute

// bin is the folder of the built binaries.
func bin(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wallproof")); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	return dir
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
}

func command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(bin(t), name), args...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	return cmd
}

func run(t testing.TB, name string, args ...string) result {
	t.Helper()
	cmd := command(t, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func wallproof(t testing.TB, args ...string) result { t.Helper(); return run(t, "wallproof", args...) }

// before is what was on the machine before the first test: it is not ours, and
// no test is blamed for it.
var before = map[string]bool{}

func TestMain(m *testing.M) {
	if code, ok := isActor(); ok {
		os.Exit(code)
	}
	found, err := state()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	for _, f := range found {
		fmt.Fprintln(os.Stderr, "e2e: was here before the tests:", f)
		before[f] = true
	}
	os.Exit(m.Run())
}

// leftovers lists what a run leaves on the machine when it does not clean up.
func leftovers(t testing.TB) []string {
	t.Helper()
	found, err := state()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(found, func(f string) bool { return before[f] })
}

// state lists what of Wallproof's is on the machine: namespaces, folders,
// mounts and links.
func state() ([]string, error) {
	var out []string
	for _, dir := range []string{"/run/netns", "/var/lib/wallproof/runs", "/run/wallproof", "/run/wallproof/gvisor"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "wallproof") || strings.HasPrefix(dir, "/var/lib/wallproof") || len(e.Name()) == 8 {
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, "wallproof-") {
			out = append(out, "mount "+line)
		}
	}
	links, err := filepath.Glob("/sys/class/net/wallproof*")
	if err != nil {
		return nil, err
	}
	return append(out, links...), nil
}

// TestMain1DemoEndToEnd is the main job: all of it goes as it should, and the
// machine is afterwards as it was.
func Test1Demo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demo")
	r := wallproof(t, "demo", "--out", out)
	if r.code != 0 {
		t.Fatalf("demo: %s", r)
	}
	for _, want := range []string{"TOK", "IMD", "LAT", "NET", "TEN", "SNP", "ENV", "INJ", "0 critical escapes", "signature-verified", "policy-drift"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the demo's output lacks %q", want)
		}
	}
	if strings.Contains(r.stdout, "\x1b[") {
		t.Error("colours although NO_COLOR is set")
	}
	for _, file := range []string{"packet/manifest.jsonl", "packet/attestation.sigstore.json", "packet/verification.sigstore.json", "site/index.html", "drift/site/index.html"} {
		if info, err := os.Stat(filepath.Join(out, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	t.Run("an auditor re-verifies", func(t *testing.T) { auditor(t, out) })
	t.Run("a packet cut short", func(t *testing.T) { cutShort(t, out) })
	t.Run("shape of the manifest", func(t *testing.T) { manifestShape(t, out) })
	t.Run("again into the same folder", func(t *testing.T) {
		if r := wallproof(t, "demo", "--out", filepath.Dir(out)); r.code != 1 || !strings.Contains(r.stderr, "not empty") {
			t.Errorf("a folder that is not a demo's: %s", r)
		}
	})
}

func auditor(t *testing.T, out string) {
	r := wallproof(t, "verify", filepath.Join(out, "packet"), "--key", filepath.Join(out, "demo.pub"), "--output", "json")
	var report struct{ Verdict string }
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Verdict != "valid" || r.code != 0 {
		t.Errorf("verify: %v %s", err, r)
	}
}

// cutShort: a packet without its last lines says that it is incomplete and never
// verifies.
func cutShort(t *testing.T, out string) {
	dir := filepath.Join(t.TempDir(), "packet")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(out, "packet"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "manifest.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for name, cut := range map[string][]byte{
		"last line":   bytes.Join(lines[:len(lines)-2], nil),
		"middle":      data[:len(data)/2],
		"everything":  nil,
		"one byte":    data[:len(data)-1],
		"first lines": bytes.Join(lines[5:], nil),
	} {
		if err := os.WriteFile(path, cut, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := wallproof(t, "verify", dir, "--key", filepath.Join(out, "demo.pub")); r.code != 2 {
			t.Errorf("%s cut: %s", name, r)
		}
		os.Remove(filepath.Join(dir, "attestation.sigstore.json"))
		r := wallproof(t, "verify", dir, "--key", filepath.Join(out, "demo.pub"))
		if r.code != 2 || (name != "first lines" && !strings.Contains(r.stdout, "incomplete")) {
			t.Errorf("%s cut, unsigned: it must say that it is incomplete: %s", name, r)
		}
		if r := wallproof(t, "attest", dir, "--key", filepath.Join(out, "demo.key")); r.code != 2 {
			t.Errorf("%s cut: attest must refuse to sign: %s", name, r)
		}
		if err := os.CopyFS(filepath.Join(t.TempDir(), "x"), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		bundle, err := os.ReadFile(filepath.Join(out, "packet", "attestation.sigstore.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "attestation.sigstore.json"), bundle, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// manifestShape: every technique has its control, both sides are observed.
func manifestShape(t *testing.T, out string) {
	data, err := os.ReadFile(filepath.Join(out, "packet", "manifest.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	techniques := map[string]map[string]bool{}
	sides := map[string]bool{}
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var e struct {
			Type, Technique, Vector, Outcome string
			Control                          struct{ Observations []struct{ Side string } }
			Attack                           struct{ Observations []struct{ Side string } }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != "technique" || e.Outcome == "not-applicable" {
			continue
		}
		if e.Outcome == "blocked" || e.Outcome == "contained" {
			if techniques[e.Vector] == nil {
				techniques[e.Vector] = map[string]bool{}
			}
			techniques[e.Vector][e.Technique] = true
			if len(e.Control.Observations) == 0 || len(e.Attack.Observations) == 0 {
				t.Errorf("%s is %s without observations of both phases", e.Technique, e.Outcome)
			}
		}
		for _, o := range e.Control.Observations {
			sides["control "+o.Side] = true
		}
		for _, o := range e.Attack.Observations {
			sides["attack "+o.Side] = true
		}
	}
	for _, v := range []string{"TOK", "IMD", "LAT", "NET", "TEN", "SNP", "ENV", "INJ"} {
		if len(techniques[v]) < 4 {
			t.Errorf("%s: %d conclusive techniques, want at least 4", v, len(techniques[v]))
		}
	}
	for _, side := range []string{"control probe", "control witness", "attack probe", "attack proxy", "attack filter"} {
		if !sides[side] {
			t.Errorf("nothing was observed by: %s", side)
		}
	}
}

// Test2Breaks: seeded breaks are caught by a technique that they name, and a
// break that its technique cannot see is called missed. `make breaks` tries all
// that there are.
func Test2Breaks(t *testing.T) {
	files := []string{"../breaks/environment-token.yaml", "../breaks/filter-cgnat.yaml", "../breaks/proxy-no-redaction.yaml", "../breaks/network-dead.yaml"}
	r := run(t, "wallproof-breaks", append([]string{"run"}, files...)...)
	if want := fmt.Sprintf("total: %d/%d", len(files), len(files)); r.code != 0 || !strings.Contains(r.stdout, want) {
		t.Errorf("want %q: %s", want, r)
	}
	blind := filepath.Join(t.TempDir(), "blind.yaml")
	if err := os.WriteFile(blind, []byte("kind: environment-leak\nwith: {variable: A, secret: host}\ncaught-by: [TOK-NETRC]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = run(t, "wallproof-breaks", "run", blind)
	if r.code != 2 || !strings.Contains(r.stdout, "missed: blind") || !strings.Contains(r.stdout, "total: 0/1") {
		t.Errorf("a break that nothing can see: %s", r)
	}
}

// Test2ReleaseHasNoHooks: what opens holes exists in the test binary alone.
func Test2ReleaseHasNoHooks(t *testing.T) {
	marks := []string{"noHostAgreement", "rejectAsDrop", "environment-leak", "skipNormalisation", "noUserNamespace", "believe-header"}
	for name, want := range map[string]bool{"wallproof-breaks": true, "wallproof": false, "wallproof-probe": false, "wallproof-agent": false} {
		data, err := os.ReadFile(filepath.Join(bin(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range marks {
			if got := bytes.Contains(data, []byte(mark)); got != want {
				t.Errorf("%s holds %q: %v, want %v", name, mark, got, want)
			}
		}
	}
}

// Test3Interrupted: Ctrl-C in the middle of a run returns the machine to its
// state; after kill -9, gc does.
func Test3Interrupted(t *testing.T) {
	layout, policy := fixtures(t)
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		after  string
	}{
		{"ctrl-c while sandboxes start", syscall.SIGINT, "start the sandboxes"},
		{"ctrl-c while attacking", syscall.SIGINT, "attempts"},
		{"kill -9 while attacking", syscall.SIGKILL, "attempts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			cmd := command(t, "wallproof", "run", "--image", layout, "--policy", policy, "--out", out)
			interrupt(t, cmd, tt.after, tt.signal)
			if tt.signal == syscall.SIGKILL {
				if left := leftovers(t); len(left) == 0 {
					t.Error("kill -9 left nothing, so this test shows nothing of gc")
				}
				if r := wallproof(t, "gc"); r.code != 0 || !strings.Contains(r.stdout, "removed") {
					t.Errorf("gc: %s", r)
				}
			}
			if left := leftovers(t); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if r := wallproof(t, "verify", filepath.Join(out, "packet"), "--key", policy); r.code == 0 {
				t.Errorf("an interrupted packet verifies: %s", r)
			}
		})
	}
}

// interrupt starts a command, waits until its progress says text, and signals it.
func interrupt(t *testing.T, cmd *exec.Cmd, text string, sig syscall.Signal) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	sent := false
	for {
		n, err := stderr.Read(buf)
		seen.Write(buf[:n])
		if !sent && strings.Contains(seen.String(), text) {
			sent = true
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	werr := cmd.Wait()
	if !sent {
		t.Fatalf("it ended before it said %q: %v\n%s", text, werr, seen.String())
	}
	if werr == nil {
		t.Errorf("it ended with exit code 0 although it was interrupted")
	}
	if sig == syscall.SIGINT && !strings.Contains(seen.String(), "interrupted") {
		t.Errorf("it does not say that it was interrupted:\n%s", seen.String())
	}
}

// fixtures makes an image layout and a policy.
func fixtures(t testing.TB) (layout, policy string) {
	t.Helper()
	dir := t.TempDir()
	layout, policy = filepath.Join(dir, "layout"), filepath.Join(dir, "policy.yaml")
	writeLayout(t, layout)
	data, err := os.ReadFile("../../internal/demo/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policy, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return layout, policy
}
