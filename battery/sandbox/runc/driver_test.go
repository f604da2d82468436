//go:build runc

package runc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

func TestFindRuntime(t *testing.T) {
	dir := t.TempDir()
	plain, other := filepath.Join(dir, "plain"), filepath.Join(dir, "other")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho crun version 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "missing"): "no runtime", plain: "not an executable file", dir: "not an executable file", other: "it is not runc"} {
		_, err := New(Hardened, Options{Runtime: path}).Describe(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Setenv("PATH", dir)
	if _, err := findRuntime(""); err == nil || !strings.Contains(err.Error(), "apt-get install runc") {
		t.Errorf("not on PATH: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range profiles {
		d, err := New(p, Options{}).Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Name != string(p) || d.Facts["kernel"] != "shared" || d.Snapshots || (d.Facts["seccomp"] == "filter") != (p == Hardened) || !strings.HasPrefix(d.Facts["runtimeDigest"], "sha256:") {
			t.Errorf("%+v", d)
		}
		seen[d.ConfigDigest] = true
	}
	changed, err := configDigest(Hardened, host{cgroups: bundle.CgroupsV1, apparmor: appArmorProfile})
	if err != nil {
		t.Fatal(err)
	}
	if seen[changed] = true; len(seen) != 3 {
		t.Errorf("different configurations, %d digests", len(seen))
	}
}

// TestFilterNamesEachCallOnce: a call in two groups is a slip, and one that makes
// or enters namespaces, mounts or loads code into the kernel is worse.
func TestFilterNamesEachCallOnce(t *testing.T) {
	f := systemCalls()
	names := slices.Clone(f.Syscalls[0].Names)
	slices.Sort(names)
	for i, n := range names {
		if i > 0 && names[i-1] == n {
			t.Errorf("%s is named twice", n)
		}
	}
	for _, n := range []string{
		"unshare", "setns", "mount", "umount2", "move_mount", "open_tree", "fsopen", "pivot_root", "chroot", "init_module", "finit_module", "delete_module", "kexec_load", "bpf",
		"perf_event_open", "userfaultfd", "io_uring_setup", "keyctl", "add_key", "request_key", "open_by_handle_at", "reboot", "swapon", "syslog", "settimeofday", "clock_settime", "acct", "quotactl",
		"clone", "clone3", "socket", "personality", "fanotify_init", "iopl", "ioperm", "modify_ldt",
	} {
		if slices.Contains(names, n) {
			t.Errorf("%s is allowed whatever its arguments", n)
		}
	}
	if f.DefaultAction != "SCMP_ACT_ERRNO" || len(f.Architectures) == 0 {
		t.Errorf("default %s, architectures %v", f.DefaultAction, f.Architectures)
	}
}

// TestBareConfigurationHasNoCare pins what makes the bare profile bare.
func TestBareConfigurationHasNoCare(t *testing.T) {
	s := Bare.ociSpec(sandbox.Spec{ID: "wallproof-x", IDBase: testBase, NetNS: "/run/netns/x"}, "/d", host{cgroups: bundle.CgroupsV1})
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"seccomp", "maskedPaths", "readonlyPaths", "uidMappings", `"type":"user"`, "apparmor"} {
		if strings.Contains(string(b), absent) {
			t.Errorf("it has %s", absent)
		}
	}
	if !strings.Contains(string(b), `{"type":"network","path":"/run/netns/x"}`) {
		t.Errorf("it has no network namespace of its own: %s", b)
	}
}

func TestExited(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(pidFile, []byte("12"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		`{"level":"debug","msg":"process exited","pid":12,"status":137}`: 137,
		`{"level":"debug","msg":"process exited","pid":12,"status":0}`:   0,
		`{"level":"debug","msg":"process exited","pid":11,"status":3}`:   -1,
		`{"level":"debug","msg":"other","pid":12,"status":3}`:            -1,
		`process exited`: -1,
		``:               -1,
	} {
		got, yes := exited([]byte(line), pidFile)
		if yes != (want >= 0) || yes && got != want {
			t.Errorf("%s: %d, %v", line, got, yes)
		}
	}
	if _, yes := exited([]byte(`{"msg":"process exited","pid":12}`), pidFile+"-missing"); yes {
		t.Error("without the command's id")
	}
}

// BenchmarkStart is a bare sandbox's start and stop.
func BenchmarkStart(b *testing.B) {
	f := newFixture(b)
	for _, p := range profiles {
		b.Run(string(p), func(b *testing.B) {
			for b.Loop() {
				sb, err := New(p, Options{StateDir: f.state}).Start(b.Context(), f.spec(newID(b)))
				if err != nil {
					b.Fatal(err)
				}
				if err := sb.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
