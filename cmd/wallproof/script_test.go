package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/front"
	"github.com/wallproof/wallproof/probes/catalog"
)

// programs are what scripts can run.
var programs = map[string]func(){"wallproof": main, front.Boundary: main, auditor.Program: func() { auditor.Main(os.Args) }}

func TestMain(m *testing.M) { testscript.Main(m, programs) }

// TestScripts runs the command line as a user would. Each script finds in its
// folder: packet (valid, attested and re-run, at $NOW), escaped (the same with an
// escape), norerun, unsigned (of a run an hour ago), and the key pair attester.key
// and attester.pub; newer, older and imaged-escaped are about the image
// $REPOSITORY@$DIGEST of a registry that is there, too. $ROW is a row of packet,
// $RUN its run. card.json is a scorecard that fits newer.
func TestScripts(t *testing.T) {
	fixtures := t.TempDir()
	key, now := makeFixtures(t, fixtures)
	first := catalog.All()[0]
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "serves": serves, "waitfor": waitFor, "registry-fails": registryFails, "at-time": atTime},
		Setup: func(env *testscript.Env) error {
			env.Setenv("NOW", now.Format(time.RFC3339))
			env.Setenv("KEYFILE", key)
			env.Setenv("ROW", first.ID+"/"+first.Variants[0])
			env.Setenv("RUN", packettest.RunID)
			if err := startRegistry(env); err != nil {
				return err
			}
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

// atTime TIME FILE lets a live.json have been generated at another time.
func atTime(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: at-time TIME FILE")
	}
	live, err := predicate.ParseLive([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	live.Generated = args[0]
	data, err := json.Marshal(live)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o600))
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
	about, digest := aboutImage(t)
	siteFixtures(t, good.Key, dir)
	for name, p := range map[string]*packettest.Packet{
		"packet":      good,
		"escaped":     packettest.New(t, packettest.Key(good.Key), packettest.Escape(good.Catalogue[0].ID)),
		"norerun":     packettest.New(t, packettest.Key(good.Key), packettest.WithoutRerun()),
		"unsigned":    packettest.New(t, packettest.Key(good.Key), packettest.Unsigned(), packettest.StartedAt(time.Now().Add(-time.Hour))),
		"otherdriver": packettest.New(t, packettest.Key(good.Key), packettest.Run(func(r *manifest.Run) { r.Driver.Version += "-next" })),
		"newer":       packettest.New(t, append(slices.Clone(about), packettest.Key(good.Key))...),
		"older":       packettest.New(t, append(slices.Clone(about), packettest.Key(good.Key), packettest.StartedAt(packettest.Started.Add(-2*time.Hour)))...),
		"imaged-escaped": packettest.New(t, append(slices.Clone(about), packettest.Key(good.Key), packettest.Escape(good.Catalogue[0].ID),
			packettest.StartedAt(packettest.Started.Add(time.Hour)))...),
	} {
		if err := os.Rename(p.WriteDir(t, t.TempDir()), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	private, public, err := keyfile.EncryptKey(good.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	card := fmt.Sprintf(`{"schema":"wallproof.scorecard/v1","kind":"create","id":"x","produced":"2026-11-02T00:00:00.000Z","image":%q,"policy":%q}`, digest, good.Policy)
	for name, data := range map[string][]byte{"attester.key": private, "attester.pub": public, "card.json": []byte(card)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "attester.key"), good.Now
}

// aboutImage makes a packet be about the image that every script's registry has.
func aboutImage(t *testing.T) (options []packettest.Option, image string) {
	t.Helper()
	img, err := testImage(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return []packettest.Option{packettest.RedTeamTarget(digest.String()),
		packettest.Image(manifest.Image{Reference: "registry.example/agents/demo@" + digest.String(), Digest: digest.String(), Platform: "linux/" + runtime.GOARCH})}, digest.String()
}
