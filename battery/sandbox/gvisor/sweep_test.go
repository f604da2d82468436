package gvisor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/conformance"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// ownerEnv makes the test binary the owner of a sandbox that gets killed.
const ownerEnv = "WALLPROOF_TEST_OWNER"

// unpackArg makes the test binary the unpacking process of an image.
const unpackArg = "unpack-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == unpackArg {
		os.Exit(image.UnpackMain(nil))
	}
	if args := os.Getenv(ownerEnv); args != "" {
		os.Exit(ownSandbox(strings.Split(args, "|")))
	}
	os.Exit(m.Run())
}

// ownSandbox starts a sandbox, says so, and waits to be killed.
func ownSandbox(args []string) int {
	runtime, state, rootfs, guest, id := args[0], args[1], args[2], args[3], args[4]
	d := New(Options{Runtime: runtime, StateDir: state})
	_, err := d.Start(context.Background(), testSpec(id, rootfs, guest))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	select {}
}

func testSpec(id, rootfs, guest string) sandbox.Spec {
	return sandbox.Spec{
		ID: id, Rootfs: rootfs, IDBase: 1 << 20, Init: []string{"/.wallproof/guest", "hold"},
		Mounts: []sandbox.Mount{{Source: guest, Target: "/.wallproof/guest", ReadOnly: true}},
	}
}

func TestSweep(t *testing.T) {
	f := conformance.NewFixture(t, 1<<20)
	state := testStateDir(t)
	kept := fmt.Sprintf("wallproof-%d-kept", os.Getpid())
	killed := fmt.Sprintf("wallproof-%d-killed", os.Getpid())
	living := fmt.Sprintf("wallproof-%d-living", os.Getpid())

	mine, err := New(Options{Runtime: testRuntime(t), StateDir: state}).Start(t.Context(), testSpec(living, f.Rootfs, f.Guest))
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Stop(t.Context())
	for _, id := range []string{kept, killed} {
		startAndKill(t, strings.Join([]string{testRuntime(t), state, f.Rootfs, f.Guest, id}, "|"))
	}
	stale := filepath.Join(state, bundle.NewPrefix+"stale")
	fresh := filepath.Join(state, bundle.NewPrefix+"fresh")
	for _, dir := range []string{stale, fresh} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	if fds, err := processes(bundle.Dir(filepath.Join(state, killed))); err != nil || len(fds) == 0 {
		t.Fatalf("the killed owner's sandbox does not run: %v", err)
	} else {
		fds.Close()
	}

	got, err := Sweep(t.Context(), state, func(id string) bool { return id == kept })
	if err != nil || !slices.Equal(got, []string{bundle.NewPrefix + "stale", killed}) {
		t.Errorf("swept %q, %v", got, err)
	}
	if exit, err := mine.Exec(t.Context(), sandbox.Command{Argv: []string{"/.wallproof/guest", "exit", "3"}}); err != nil || exit != 3 {
		t.Errorf("the living owner's sandbox: exit %d, %v", exit, err)
	}
	if got, err = Sweep(t.Context(), state, nil); err != nil || !slices.Equal(got, []string{kept}) {
		t.Errorf("swept %q, %v", got, err)
	}
	assertNothing(t, state, killed, kept)
	if err := os.Remove(fresh); err != nil {
		t.Error(err)
	}
}

// startAndKill runs this binary as an owner and kills it, as by kill -9.
func startAndKill(t *testing.T, args string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), ownerEnv+"="+args)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || line != "started\n" {
		t.Fatalf("owner said %q, %v", line, err)
	}
}

func assertNothing(t *testing.T, state string, ids ...string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := os.Lstat(filepath.Join(state, id)); err == nil {
			t.Errorf("%s has its folder still", id)
		}
		if strings.Contains(string(mounts), id) {
			t.Errorf("%s has a mount still", id)
		}
		if fds, err := processes(bundle.Dir(filepath.Join(state, id))); err != nil || len(fds) != 0 {
			t.Errorf("%s has %d processes still, %v", id, len(fds), err)
		}
		if groups, _ := filepath.Glob(bundle.CgroupRoot + "/*/" + id); len(groups) != 0 {
			t.Errorf("%s has control groups still: %q", id, groups)
		}
	}
}

func TestSweepOfNothing(t *testing.T) {
	if got, err := Sweep(t.Context(), filepath.Join(t.TempDir(), "missing"), nil); err != nil || got != nil {
		t.Errorf("swept %q, %v", got, err)
	}
}
