package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport are the prefixes of what the probe may be made of, besides the
// standard library: everything in it runs inside a hostile sandbox and counts for
// what the evidence says.
var mayImport = []string{
	"github.com/wallproof/wallproof/probes",
	"github.com/wallproof/wallproof/cmd/wallproof-probe",
	"github.com/wallproof/wallproof/attest/manifest", // the schema of an observation
	"github.com/wallproof/wallproof/internal/canon",  // which it is encoded with
	"golang.org/x/net/", "golang.org/x/sys/", "golang.org/x/text/",
}

// pure are the packages that the verifier shares, and what their own code must not
// import.
var (
	pure      = []string{"catalog", "canary", "nonce", "paths", "plant"}
	forbidden = []string{"net", "net/http", "os", "os/exec", "syscall", "golang.org/x/sys/unix"}
)

func list(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

func TestProbeImports(t *testing.T) {
	for _, path := range list(t, "-deps", ".") {
		if host, _, _ := strings.Cut(path, "/"); !strings.Contains(host, ".") {
			continue // the standard library's
		}
		if !slices.ContainsFunc(mayImport, func(p string) bool { return strings.HasPrefix(path, p) }) {
			t.Errorf("the probe imports %s", path)
		}
	}
}

func TestPureImports(t *testing.T) {
	for _, name := range pure {
		for _, path := range list(t, "-f", `{{join .Imports "\n"}}`, "github.com/wallproof/wallproof/probes/"+name) {
			if slices.Contains(forbidden, path) {
				t.Errorf("probes/%s imports %s", name, path)
			}
		}
	}
}
