package boundary

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"

	"github.com/wallproof/wallproof/internal/procs"
)

// only makes a test's sweep blind to everybody else's runs.
func only(run string) func(string) bool {
	return func(other string) bool { return other != run || Alive(run) }
}

func TestRulesSurviveTheirMakerAndAreSweptUp(t *testing.T) {
	run := newRun()
	maker := exec.Command(procs.Self)
	maker.Args = []string{"boundary-test-builder"}
	maker.Env = []string{"BOUNDARY_TEST_RUN=" + run}
	out, err := maker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = maker.Process.Kill()
		_ = maker.Wait()
		if _, err := Sweep(context.Background(), only(run)); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up <nil>\n" {
		t.Fatalf("maker: %q, %v", line, err)
	}
	if removed, err := Sweep(t.Context(), only(run)); err != nil || len(removed) != 0 {
		t.Fatalf("swept a living run: %v, %v", removed, err)
	}
	if !Alive(run) {
		t.Fatal("the run counts as dead")
	}
	if _, err := Claim(run); !errors.Is(err, ErrClaimed) {
		t.Fatalf("claimed a run of another: %v", err)
	}

	_ = maker.Process.Kill() // kill -9
	_ = maker.Wait()
	ns := netnsDir + nsName(run, "a", "a")
	for _, to := range []string{"8.8.8.8:22", "[fd00::1]:22", "203.0.113.2:22"} {
		if _, _, err := exchange(ns, "tcp", to, ""); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("after the maker's death, %s: %v", to, err)
		}
	}
	removed, err := Sweep(t.Context(), only(run))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(removed)
	want := []string{nsName(run, "a", "a"), nsName(run, "a", "router"), nsName(run, "a", "world")}
	if !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if left := namesOf(t, run); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(ownersDir, run)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the owner's record is left (%v)", err)
	}
	if removed, err := Sweep(t.Context(), only(run)); err != nil || len(removed) != 0 {
		t.Errorf("a second sweep: %v, %v", removed, err)
	}
}

// Debris of other kinds: a name without a namespace, a link of the host's.
func TestSweepDebris(t *testing.T) {
	run := newRun()
	name := nsName(run, "a", "router")
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(netnsDir+name, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	short := fmt.Sprintf("%05s", run[:5])
	attrs := netlink.NewLinkAttrs()
	attrs.Name = prefix + short
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "wpsweep" + short}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l, err := netlink.LinkByName(attrs.Name); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	removed, err := Sweep(t.Context(), func(r string) bool { return r != run && r != short })
	if err != nil || !slices.Equal(removed, []string{name, attrs.Name}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}

func TestClaim(t *testing.T) {
	run := newRun()
	if Alive(run) {
		t.Fatal("alive before it is claimed")
	}
	// The record of a process that is no more, though its number is in use.
	dir := filepath.Join(ownersDir, run)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, stale := range []string{fmt.Sprintf("%d 1\n", os.Getpid()), "x y\n", "", "1\n"} {
		if err := os.WriteFile(filepath.Join(dir, "owner"), []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
		if Alive(run) {
			t.Errorf("record %q counts as alive", stale)
		}
	}
	release, err := Claim(run)
	if err != nil {
		t.Fatal(err)
	}
	if !Alive(run) {
		t.Error("claimed and not alive")
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil { // leaves what others keep there
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	if Alive(run) {
		t.Error("alive after its release")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder is left (%v)", err)
	}
	for _, bad := range []string{"", "../../etc", "ABCDEF01", "123456789"} {
		if _, err := Claim(bad); !errors.Is(err, ErrConfig) || Alive(bad) {
			t.Errorf("run %q: %v", bad, err)
		}
	}
}

func TestBuildLeavesNothingWhenItFails(t *testing.T) {
	t.Run("name taken", func(t *testing.T) {
		cfg := enforcedConfig()
		claim(t, cfg.Run)
		foreign, err := newNamespace(nsName(cfg.Run, cfg.Phase, "b"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := foreign.remove(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := Build(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "already there") {
			t.Errorf("built over another's namespace: %v", err)
		}
		if left := namesOf(t, cfg.Run); !slices.Equal(left, []string{foreign.name}) {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		cfg := enforcedConfig()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Build(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if left := namesOf(t, cfg.Run); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := <-s.Denials(); ok {
		t.Error("a record after the end")
	}
	_, errState := s.FilterState()
	_, errVerify := s.VerifyInPlace(t.Context())
	_, errCount := s.Counters()
	_, errListen := s.Listeners()
	_, errWorld := s.WorldListeners()
	for i, err := range []error{errState, errVerify, errCount, errListen, errWorld, s.ResetBox("a")} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
}

// Links go although a process is still inside the namespace.
func TestCloseCutsAProcessOff(t *testing.T) {
	s := buildStage(t, enforcedConfig())
	inside := exec.Command("/bin/sleep", "60")
	err := procs.DoIn(box(t, s, "a").NetNSPath, inside.Start)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = inside.Process.Kill()
		_ = inside.Wait()
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", inside.Process.Pid))
	if err != nil || strings.Contains(string(b), boxLink+":") {
		t.Errorf("the link is still there (%v):\n%s", err, b)
	}
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		s, err := Build(b.Context(), enforcedConfig())
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
