package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// forbidden are packages, and all below them, that this program must not carry as
// `make build` builds it: ways to a network and to other processes, private keys,
// and what builds a boundary.
var forbidden = []string{
	"net/http", "net/rpc", "net/smtp", "crypto/tls", "os/exec", "plugin", "google.golang.org/grpc", "github.com/google/go-containerregistry",
	"github.com/sigstore/sigstore-go/pkg/sign", "github.com/sigstore/sigstore-go/pkg/tuf", "github.com/theupdateframework", "github.com/go-git",
	"github.com/wallproof/wallproof/attest/oci", "github.com/wallproof/wallproof/attest/kms", "github.com/wallproof/wallproof/site",
	"github.com/wallproof/wallproof/battery/boundary", "github.com/wallproof/wallproof/policy/proxy", "github.com/wallproof/wallproof/internal/procs",
}

func packages(t *testing.T, command ...string) []string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return strings.Fields(string(out))
}

func reaching(list []string) []string {
	return slices.DeleteFunc(list, func(p string) bool {
		return !slices.ContainsFunc(forbidden, func(f string) bool { return p == f || strings.HasPrefix(p, f+"/") })
	})
}

func TestNothingThatReachesOut(t *testing.T) {
	// The program that users start carries no more than this one.
	for _, program := range []string{"./cmd/wallproof-verify", "./cmd/wallproof-front"} {
		list := packages(t, "go", "run", "./internal/tools/slim", "go", "list", "-tags", "urfave_cli_no_docs", "-deps", program)
		if n := len(list); n < 100 || !slices.Contains(list, "github.com/wallproof/wallproof/verify") {
			t.Fatalf("%d packages in %s, without the verifier: this test reads them wrongly", n, program)
		}
		if found := reaching(list); len(found) > 0 {
			t.Errorf("%s carries %v", program, found)
		}
	}
	// The control: the same program built plainly links clients that it never calls,
	// and wallproof itself has all the rest.
	if found := reaching(packages(t, "go", "list", "-deps", "./cmd/wallproof")); len(found) < 10 {
		t.Errorf("wallproof is found to carry %v only", found)
	}
}
