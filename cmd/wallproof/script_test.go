package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"wallproof": main})
}

// TestScripts runs the command line as a user would. Each script finds in its
// folder: packet (valid, attested and re-run, at $NOW), escaped (the same with an
// escape), norerun, unsigned, and the key pair attester.key and attester.pub.
func TestScripts(t *testing.T) {
	fixtures := t.TempDir()
	key, now := makeFixtures(t, fixtures)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "serves": serves, "waitfor": waitFor},
		Setup: func(env *testscript.Env) error {
			env.Setenv("NOW", now.Format(time.RFC3339))
			env.Setenv("KEYFILE", key)
			return os.CopyFS(env.WorkDir, os.DirFS(fixtures))
		},
	})
}

// exits CODE PROGRAM [ARG…] runs a program that must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\n%s", code, args[0], ts.ReadFile("stderr"))
	}
}

// waitFor FILE waits until a program in the background has written a file.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	for range 1200 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s was not written within a minute", args[0])
}

func makeFixtures(t *testing.T, dir string) (keyFile string, now time.Time) {
	t.Helper()
	good := packettest.New(t)
	siteFixtures(t, good.Key, dir)
	for name, p := range map[string]*packettest.Packet{
		"packet":      good,
		"escaped":     packettest.New(t, packettest.Key(good.Key), packettest.Escape(good.Catalogue[0].ID)),
		"norerun":     packettest.New(t, packettest.Key(good.Key), packettest.WithoutRerun()),
		"unsigned":    packettest.New(t, packettest.Key(good.Key), packettest.Unsigned()),
		"otherdriver": packettest.New(t, packettest.Key(good.Key), packettest.Run(func(r *manifest.Run) { r.Driver.Version += "-next" })),
	} {
		if err := os.Rename(p.WriteDir(t, t.TempDir()), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	private, public, err := attest.EncryptKey(good.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"attester.key": private, "attester.pub": public} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "attester.key"), good.Now
}
