package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/nonce"
)

const beProgram = "WALLPROOF_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command is the program under a name.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = name
	cmd.Env = []string{beProgram + "=1", "A=b"}
	return cmd
}

// Under the name of a program it is that program.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		in     string
		out    string
		status int
	}{
		{"sh", []string{"-c", "echo $A $1; exit 3", "zero", "one"}, "", "b one\n", 3},
		{"/bin/sh", []string{"-c", "cat"}, "input", "input", 0},
		{"-sh", []string{"-c", "pwd >/dev/null && echo ok"}, "", "ok\n", 0},
		{"cat", nil, "input", "input", 0},
		{"echo", []string{"a", "b c"}, "", "a b c\n", 0},
		{"env", []string{"printenv", "A"}, "", "b\n", 0},
		{"true", nil, "", "", 0},
		{"false", nil, "", "", 1},
		{"grep", []string{"x"}, "axb\nc\n", "axb\n", 0},
		{"wallproof-agent", []string{"exec", "echo", "hi"}, "", "hi\n", 0},
		{"sh", nil, "echo from standard input\n", "from standard input\n", 0},
		// Programs of the file system run as from any shell: here this binary, by the
		// name of another program.
		{"sh", []string{"-c", "/proc/self/exe exec echo outside"}, "", "outside\n", 0},
	} {
		cmd := command(tt.name, tt.args...)
		cmd.Stdin = strings.NewReader(tt.in)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		status := cmd.ProcessState.ExitCode()
		if string(out) != tt.out || status != tt.status {
			t.Errorf("%s %q: %q, %d, %v, %s", tt.name, tt.args, out, status, err, stderr.String())
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"bogus"}, {"exec", "bogus"}} {
		if out, err := command("wallproof-agent", args...).CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "usage: wallproof-agent") {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
}

// Results are authenticated lines on standard output, the transcript is on
// standard error.
func TestRun(t *testing.T) {
	key := strings.Repeat("0a", probes.MinKeyBytes)
	n := nonce.New([]byte("k"), "run", "INJ-README", "default", "")
	facts := probes.Facts{Agent: probes.Agent{Workspace: t.TempDir(), SecretEnv: "A", SecretIn: "/nowhere"},
		Outside: probes.Outside{Suffix: "evil.example", V4: probes.DefaultOutside4, V6: probes.DefaultOutside6}, Proxy: probes.Pair{V4: "127.0.0.1:1"}}
	input, err := json.Marshal(probes.Plan{Key: key, Facts: facts, Items: []probes.Item{{Technique: "INJ-README", Variant: "default", Nonce: n}}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("wallproof-agent", "run")
	cmd.Stdin = bytes.NewReader(append(input, '\n'))
	var transcript bytes.Buffer
	cmd.Stderr = &transcript
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := probes.NewReader(bytes.NewReader(out), key)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.Next()
	if err != nil || o.Nonce != n || o.Sign != manifest.SignRefused || o.Errno != "ECONNREFUSED" {
		t.Errorf("%+v, %v", o, err)
	}
	if !strings.Contains(transcript.String(), `"role":"command"`) {
		t.Errorf("transcript %q", transcript.String())
	}
}
