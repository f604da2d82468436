//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/compare"
)

var (
	cleanRuns   = flag.Int("clean-runs", 1, "how often the intact boundary is attacked")
	cleanDriver = flag.String("clean-driver", "gvisor", "in which driver's sandboxes")
	update      = flag.Bool("update", false, "write the golden list of what is not applicable")
)

// perRun bounds one run of the battery on a busy machine.
const perRun = 5 * time.Minute

// seriesResult is what `wallproof run --repeat` prints, as far as it is looked at.
type seriesResult struct {
	Conclusive bool
	Runs       []struct {
		Vectors []struct {
			Vector, Outcome string
			Totals          map[string]int
			Reasons         []string
		}
	}
	Flaky []compare.Flake
}

// Test8CleanRuns: on the intact boundary nothing escapes, nothing is inconclusive,
// and only what the golden list names is not applicable.
// Nothing is run again: each run has its packet, and each counts. runc-bare is no
// boundary: there the list alone is compared.
func Test8CleanRuns(t *testing.T) {
	layout, policy := fixtures(t)
	out := filepath.Join(t.TempDir(), "runs")
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*cleanRuns)*perRun)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin(t), "wallproof"), "run", "--image", layout, "--policy", policy, "--out", out,
		"--driver", *cleanDriver, "--repeat", fmt.Sprint(*cleanRuns), "--output", "json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var s seriesResult
	if json.Unmarshal(stdout.Bytes(), &s) != nil || len(s.Runs) != *cleanRuns {
		t.Fatalf("%d of %d runs: %v\n%s", len(s.Runs), *cleanRuns, err, stderr.String())
	}
	if *cleanDriver != "runc-bare" {
		clean(t, s, cmd.ProcessState.ExitCode())
	} else if data, err := os.ReadFile(filepath.Join(out, "run-1", "packet", "manifest.jsonl")); err != nil || !bytes.Contains(data, []byte("/proc/sys/kernel/core_pattern")) {
		t.Errorf("the battery finds nothing exposed in a container without care, where /proc/sys can be written: %v", err)
	}
	golden := filepath.Join("golden", "not-applicable-"+*cleanDriver+".txt")
	for i := range s.Runs {
		got := notApplicable(t, filepath.Join(out, fmt.Sprintf("run-%d", i+1), "packet", "manifest.jsonl"))
		if *update && i == 0 {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("run %d: what is not applicable differs from %s:\n%s", i+1, golden, lineDiff(string(want), got))
		}
	}
}

func clean(t *testing.T, s seriesResult, code int) {
	t.Helper()
	found := s.faults(code)
	for _, f := range found {
		t.Error(f)
	}
	if len(found) == 0 {
		t.Logf("%d runs: 0 escaped, 0 inconclusive, every variant the same in each", len(s.Runs))
	}
}

// faults lists what a series of runs on the intact boundary must not show. A
// variant that is blocked in one run and contained in another is one of them: the
// same attempt at the same wall has one outcome.
func (s seriesResult) faults(code int) (out []string) {
	if code != 0 || !s.Conclusive {
		out = append(out, fmt.Sprintf("exit code %d, conclusive: %v", code, s.Conclusive))
	}
	for _, f := range s.Flaky {
		out = append(out, fmt.Sprintf("%s/%s did not come out the same each time: %v %s", f.Technique, f.Variant, f.Outcomes, strings.Join(f.Reasons, "; ")))
	}
	for i, r := range s.Runs {
		if len(r.Vectors) != 8 {
			out = append(out, fmt.Sprintf("run %d: %d vectors", i+1, len(r.Vectors)))
		}
		for _, v := range r.Vectors {
			if v.Totals["escaped"]+v.Totals["inconclusive"] > 0 || v.Totals["blocked"]+v.Totals["contained"] == 0 {
				out = append(out, fmt.Sprintf("run %d: %s is %s: %v %v", i+1, v.Vector, v.Outcome, v.Totals, v.Reasons))
			}
		}
	}
	return out
}

// Each fault is seen in the JSON that a series prints.
func Test8CleanRunsNotice(t *testing.T) {
	vectors := func(first string) string {
		list := []string{first}
		for range 7 {
			list = append(list, `{"vector":"NET","outcome":"blocked","totals":{"blocked":9}}`)
		}
		return `{"vectors":[` + strings.Join(list, ",") + `]}`
	}
	good := `{"vector":"TOK","outcome":"blocked","totals":{"blocked":7,"contained":2}}`
	flake := `{"technique":"IMD-REBIND","variant":"connect-v4","vector":"IMD","outcomes":{"blocked":1,"contained":1},"reasons":["run 2: contained, nothing-usable"],"verdict":"contained"}`
	for name, c := range map[string]struct {
		runs, flaky string
		code        int
		want        string // in the first fault; "" for none
	}{
		"intact":       {vectors(good) + "," + vectors(good), "", 0, ""},
		"flaky":        {vectors(good) + "," + vectors(good), flake, 0, "IMD-REBIND/connect-v4 did not come out the same"},
		"escaped":      {vectors(`{"vector":"TOK","outcome":"escaped","totals":{"blocked":7,"escaped":1}}`), "", 0, "TOK is escaped"},
		"inconclusive": {vectors(`{"vector":"TOK","outcome":"contained","totals":{"blocked":7,"contained":1,"inconclusive":1}}`), "", 0, "run 1: TOK"},
		"untested":     {vectors(`{"vector":"TOK","outcome":"not-tested","totals":{"not-applicable":7}}`), "", 0, "TOK is not-tested"},
		"vectors":      {`{"vectors":[` + good + `]}`, "", 0, "1 vectors"},
		"code":         {vectors(good), "", 3, "exit code 3"},
	} {
		var s seriesResult
		if err := json.Unmarshal([]byte(`{"conclusive":true,"runs":[`+c.runs+`],"flaky":[`+c.flaky+`]}`), &s); err != nil {
			t.Fatal(err)
		}
		found := s.faults(c.code)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// notApplicable lists "TECHNIQUE/variant requirement" of a manifest, a line each.
func notApplicable(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var e struct{ Technique, Variant, Outcome, NotApplicable string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Outcome == "not-applicable" {
			fmt.Fprintf(&out, "%s/%s %s\n", e.Technique, e.Variant, e.NotApplicable)
		}
	}
	return out.String()
}

// lineDiff lists the lines that only one of two lists has.
func lineDiff(want, got string) string {
	var out strings.Builder
	only := func(mark, in, other string) {
		for _, line := range strings.Split(strings.TrimSpace(in), "\n") {
			if !strings.Contains("\n"+other, "\n"+line+"\n") {
				out.WriteString(mark + line + "\n")
			}
		}
	}
	only("-", want, got)
	only("+", got, want)
	return out.String()
}
