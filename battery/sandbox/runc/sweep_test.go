//go:build runc

package runc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// ownerEnv makes the test binary the owner of a sandbox that gets killed.
const ownerEnv = "WALLPROOF_TEST_OWNER"

// owned is what such an owner is told.
type owned struct {
	Profile Profile
	State   string
	Spec    sandbox.Spec
}

func TestMain(m *testing.M) {
	if args := os.Getenv(ownerEnv); args != "" {
		os.Exit(own(args))
	}
	os.Exit(m.Run())
}

// own starts a sandbox, says so, and waits to be killed.
func own(args string) int {
	var o owned
	err := json.Unmarshal([]byte(args), &o)
	if err == nil {
		_, err = New(o.Profile, Options{StateDir: o.State}).Start(context.Background(), o.Spec)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	select {}
}

// owner runs this binary as an owner.
func owner(t *testing.T, o owned) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	args, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), ownerEnv+"="+string(args))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

func members(t *testing.T, d bundle.Dir) int {
	t.Helper()
	found, err := bundle.Find(func(pid int) bool { return belongs(pid, d) })
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	return len(found)
}

func (f fixture) assertNothing(t *testing.T, id string) {
	t.Helper()
	dir := bundle.Dir(filepath.Join(f.state, id))
	if _, err := os.Lstat(string(dir)); err == nil {
		t.Errorf("%s has its folder still", id)
	}
	// A runtime that the owner was about to start when it was killed finds nothing
	// to run, and ends.
	for deadline := time.Now().Add(time.Minute); members(t, dir) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s has %d processes still", id, members(t, dir))
		}
	}
	if groups, _ := filepath.Glob(bundle.CgroupRoot + "/*/" + id); len(groups) != 0 {
		t.Errorf("%s has control groups still: %q", id, groups)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(id)) {
		t.Errorf("%s has a mount still", id)
	}
}

func TestSweep(t *testing.T) {
	f := newFixture(t)
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			mine := f.start(t, p, nil)
			kept, killed := f.spec(newID(t)), f.spec(newID(t))
			killed.NetNS = newNetns(t)
			for _, spec := range []sandbox.Spec{kept, killed} {
				cmd, out := owner(t, owned{p, f.state, spec})
				line, err := out.ReadString('\n')
				kill(t, cmd)
				if err != nil || line != "started\n" {
					t.Fatalf("owner said %q, %v", line, err)
				}
			}
			if members(t, bundle.Dir(filepath.Join(f.state, killed.ID))) == 0 {
				t.Fatal("the killed owner's sandbox does not run")
			}
			got, err := Sweep(t.Context(), p, f.state, func(id string) bool { return id == kept.ID })
			if err != nil || !slices.Equal(got, []string{killed.ID}) {
				t.Errorf("swept %q, %v", got, err)
			}
			f.assertNothing(t, killed.ID)
			output(t, mine, "facts") // the living owner's goes on
			if got, err = Sweep(t.Context(), p, f.state, nil); err != nil || !slices.Equal(got, []string{kept.ID}) {
				t.Errorf("swept %q, %v", got, err)
			}
			f.assertNothing(t, kept.ID)
		})
	}
}

// TestSweepOfHalfAStart kills the owner at different moments of its start.
func TestSweepOfHalfAStart(t *testing.T) {
	f := newFixture(t)
	for _, p := range profiles {
		for moment, reached := range map[string]func(d bundle.Dir) bool{
			"folder":  func(d bundle.Dir) bool { return exists(string(d)) },
			"bundle":  func(d bundle.Dir) bool { return exists(filepath.Join(d.Bundle(), "config.json")) },
			"runtime": func(d bundle.Dir) bool { return exists(filepath.Join(d.State(), d.ID())) },
		} {
			t.Run(string(p)+" at its "+moment, func(t *testing.T) {
				spec := f.spec(newID(t))
				dir := bundle.Dir(filepath.Join(f.state, spec.ID))
				cmd, _ := owner(t, owned{p, f.state, spec})
				deadline := time.Now().Add(time.Minute)
				for !reached(dir) && time.Now().Before(deadline) {
					time.Sleep(time.Millisecond) // nothing tells of another process's progress
				}
				kill(t, cmd)
				got, err := Sweep(t.Context(), p, f.state, nil)
				if err != nil || !slices.Equal(got, []string{spec.ID}) {
					t.Errorf("swept %q, %v", got, err)
				}
				f.assertNothing(t, spec.ID)
			})
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestStopOfWhatLooksDead: a first process whose first thread has ended is a
// zombie to all that look, and runs.
func TestStopOfWhatLooksDead(t *testing.T) {
	f := newFixture(t)
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			sb := f.start(t, p, func(s *sandbox.Spec) { s.Init = []string{guestPath, "headless"} })
			if !sb.running() {
				t.Error("it is taken for dead")
			}
			if err := sb.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			f.assertNothing(t, sb.ID())
		})
	}
}

func TestSweepOfNothing(t *testing.T) {
	for _, p := range profiles {
		if got, err := Sweep(t.Context(), p, filepath.Join(t.TempDir(), "missing"), nil); err != nil || got != nil {
			t.Errorf("swept %q, %v", got, err)
		}
	}
}
