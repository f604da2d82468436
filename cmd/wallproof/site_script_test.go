package main

import (
	"bufio"
	"crypto"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
)

// siteFixtures are packets under a policy that the evaluator reads: agent, and
// another over the image registry.example.org/agents/other; agentescaped is agent
// with a critical escape.
func siteFixtures(t *testing.T, key crypto.Signer, dir string) {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte("version: 1\nmode: allowlist\nallow:\n  - host: github.com\n"))
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := p.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	other := "sha256:" + strings.Repeat("42", 32)
	critical := ""
	for _, k := range catalog.All() {
		if k.Severity == catalog.Critical && k.Required {
			critical = k.ID
		}
	}
	for name, options := range map[string][]packettest.Option{
		"agent":        nil,
		"agentescaped": {packettest.Escape(critical)},
		"other":        {packettest.Image(manifest.Image{Reference: "registry.example.org/agents/other", Digest: other, Platform: "linux/amd64"}), packettest.RedTeamTarget(other)},
	} {
		made := packettest.New(t, append([]packettest.Option{packettest.Key(key), packettest.WithPolicy(canonical)}, options...)...)
		if err := os.Rename(made.WriteDir(t, t.TempDir()), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), p.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
}

var servedAt = regexp.MustCompile(`http://[0-9.:]+/`)

// serves CODE PATH TEXT PROGRAM [ARG…] starts a program that says on standard
// error where it serves, looks for a text in what it serves at a path, and
// interrupts it. It must then end with that exit code.
func serves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: serves CODE PATH TEXT PROGRAM [ARG…]")
	}
	path, err := exec.LookPath(args[3])
	ts.Check(err)
	cmd := exec.Command(path, args[4:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	defer cmd.Process.Kill() //nolint:errcheck // it has ended by then
	var said strings.Builder
	address := ""
	for s := bufio.NewScanner(stderr); address == "" && s.Scan(); {
		said.WriteString(s.Text() + "\n")
		address = servedAt.FindString(s.Text())
	}
	if address == "" {
		ts.Fatalf("%s never said where it serves:\n%s", args[3], said.String())
	}
	res, err := http.Get(address + args[1])
	ts.Check(err)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	ts.Check(err)
	if !strings.Contains(string(body), args[2]) {
		ts.Fatalf("%s%s does not have %q:\n%s", address, args[1], args[2], body)
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, stderr)
	ts.Check(err)
	cmd.Wait() //nolint:errcheck // the exit code says it
	if code := cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\n%s", code, args[0], said.String())
	}
}
