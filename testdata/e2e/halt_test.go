//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// attacked is a run of the battery that a test does something to.
type attacked struct {
	cmd    *exec.Cmd
	out    string
	stdout bytes.Buffer
	stderr io.ReadCloser
	seen   bytes.Buffer
}

func attackOf(t *testing.T, args ...string) *attacked {
	t.Helper()
	a := &attacked{out: filepath.Join(t.TempDir(), "out")}
	a.cmd = command(t, "wallproof", append([]string{"run", "--output", "json", "--out", a.out}, args...)...)
	a.cmd.Stdout = &a.stdout
	var err error
	if a.stderr, err = a.cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return a
}

// until reads the progress until it says text.
func (a *attacked) until(t *testing.T, text string) {
	t.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(a.seen.String(), text) {
		n, err := a.stderr.Read(buf)
		a.seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("it ended before it said %q:\n%s", text, a.seen.String())
		}
	}
}

// end waits for the end and returns the terminal entry and entry 0.
func (a *attacked) end(t *testing.T) (code int, first, last map[string]any) {
	t.Helper()
	_, _ = io.Copy(&a.seen, a.stderr)
	_ = a.cmd.Wait()
	data, err := os.ReadFile(filepath.Join(a.out, "packet", "manifest.jsonl"))
	if err != nil {
		t.Fatalf("%v\n%s", err, a.seen.String())
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	for _, l := range []struct {
		line []byte
		into *map[string]any
	}{{lines[0], &first}, {lines[len(lines)-1], &last}} {
		if err := json.Unmarshal(l.line, l.into); err != nil {
			t.Fatal(err)
		}
	}
	return a.cmd.ProcessState.ExitCode(), first, last
}

// D23: each sandbox records what it was wired with; an edit in the middle of a
// battery makes the run one that is not attested.
func Test3EditedRun(t *testing.T) {
	layout, policy := fixtures(t)
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	a := attackOf(t, "--image", layout, "--policy", policy, "--vector", "IMD")
	a.until(t, "start the sandboxes")
	if err := os.WriteFile(policy, append(text, "block:\n  - host: added.example\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	code, first, last := a.end(t)
	if code != 3 {
		t.Errorf("exit code %d\n%s", code, a.seen.String())
	}
	edits, _ := last["edits"].([]any)
	if len(edits) != 1 || edits[0].(map[string]any)["policyDigest"] == first["policyDigest"] {
		t.Errorf("edits: %v", last["edits"])
	}
	boxes, _ := first["sandboxes"].([]any)
	if len(boxes) == 0 {
		t.Error("entry 0 does not say what the sandboxes were wired with")
	}
	for _, b := range boxes {
		if w := b.(map[string]any); w["policyDigest"] != first["policyDigest"] || w["routing"] == "" {
			t.Errorf("wired %v, the run is under %v", w, first["policyDigest"])
		}
	}
	key := filepath.Join(t.TempDir(), "key")
	if r := wallproof(t, "attest", "--generate-key", key); r.code != 0 {
		t.Fatalf("%s", r)
	}
	if r := wallproof(t, "attest", filepath.Join(a.out, "packet"), "--key", key+".key"); r.code != 2 || !strings.Contains(r.stderr, "policy-edited") {
		t.Errorf("attest: %s", r)
	}
}

// D23: a run of the battery is halted for a review and resumed, and comes out as if
// it had not been.
func Test3HaltedRun(t *testing.T) {
	layout, policy := fixtures(t)
	a := attackOf(t, "--image", layout, "--policy", policy, "--vector", "NET")
	a.until(t, "of ") // attempts are being made
	if r := wallproof(t, "halt"); r.code != 0 {
		t.Fatalf("%s", r)
	}
	a.until(t, "halted for review")
	ended := make(chan error, 1)
	go func() { _, err := io.Copy(&a.seen, a.stderr); ended <- err }()
	select { // so long that what was under way has to be made anew
	case <-ended:
		t.Errorf("a halted run ended:\n%s", a.seen.String())
	case <-time.After(12 * time.Second):
	}
	if r := wallproof(t, "resume"); r.code != 0 {
		t.Fatalf("%s", r)
	}
	<-ended
	_, _, last := a.end(t)
	halts, _ := last["halts"].([]any)
	if len(halts) != 2 || halts[0].(map[string]any)["halted"] != true || halts[1].(map[string]any)["halted"] != false {
		t.Errorf("halts: %v", last["halts"])
	}
	var report struct {
		Vectors []struct {
			Vector, Outcome string
			Totals          map[string]int
			Reasons         []string
		}
	}
	if err := json.Unmarshal(a.stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s\n%s", err, a.stdout.String(), a.seen.String())
	}
	for _, v := range report.Vectors {
		if v.Vector == "NET" && (v.Totals["inconclusive"] > 0 || v.Totals["escaped"] > 0) {
			t.Errorf("a halted run came out otherwise: %+v", v)
		}
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
