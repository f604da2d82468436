//go:build runc

package runc

import (
	"os"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// TestWhatIsPossibleInside is the difference between the profiles, as a process
// of root inside measures it.
func TestWhatIsPossibleInside(t *testing.T) {
	f := newFixture(t)
	want := map[Profile]map[string]string{
		Hardened: {
			"Seccomp": "2", "NoNewPrivs": "1", "CapBnd": "00000000000005fb", "CapEff": "00000000000005fb", "CapInh": "0000000000000000", "ids": "0 1048576 65536", "umask": "022",
			"new user namespace": "EPERM", "new network namespace": "EPERM", "clone3": "ENOSYS", "mount": "EPERM", "chroot": "EPERM", "device": "EPERM",
			"bpf": "EPERM", "perf": "EPERM", "userfaultfd": "EPERM", "io_uring": "EPERM", "key ring": "EPERM", "personality": "EPERM",
			"vsock": "EPERM", "alg": "EPERM", "packet": "EPERM", "raw": "EPERM", "ping": "yes", "unix": "yes",
			"write core_pattern": "EACCES", "write sysfs": "EROFS", "keys": "empty", "timers": "empty",
			"interfaces": "lo", "sysfs interfaces": "lo",
		},
		Bare: {
			"Seccomp": "0", "NoNewPrivs": "1", "CapBnd": "00000000a80425fb", "CapEff": "00000000a80425fb", "CapInh": "00000000a80425fb", "ids": "0 0 4294967295", "umask": "022",
			"new user namespace": "yes", "new network namespace": "EPERM", "mount": "EPERM", "device": "yes", "key ring": "yes", "packet": "yes", "raw": "yes", "unix": "yes",
			"write core_pattern": "yes", "write sysfs": "EROFS", "chroot": "yes", "timers": "yes",
			"interfaces": "lo", "sysfs interfaces": "lo",
		},
	}
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			ns := newNetns(t)
			var sb *box
			withUmask(0o077, func() { sb = f.start(t, p, func(s *sandbox.Spec) { s.NetNS = ns }) })
			var got map[string]string
			withUmask(0o077, func() { got = factsOf(t, sb) })
			for name, w := range want[p] {
				if got[name] != w {
					t.Errorf("%s: %q, want %q", name, got[name], w)
				}
			}
		})
	}
}

// TestNetworkStaysTheOneGiven: a command runs in the namespace that the sandbox
// was started in, although its name is another's by then.
func TestNetworkStaysTheOneGiven(t *testing.T) {
	f := newFixture(t)
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) {
			ns := newNetns(t)
			sb := f.start(t, p, func(s *sandbox.Spec) { s.NetNS = ns })
			before := sameNet(t, sb)
			if err := sb.checkNet(initPid(t, sb)); err != nil {
				t.Error(err)
			}
			sb.spec.NetNS = newNetns(t)
			if err := sb.checkNet(initPid(t, sb)); err == nil {
				t.Error("another namespace passes for the one given")
			}
			if after := sameNet(t, sb); after != before {
				t.Errorf("network namespace is %s, was %s", after, before)
			}
		})
	}
	t.Run("none given", func(t *testing.T) {
		sb := f.start(t, Hardened, nil)
		if err := sb.checkNet(initPid(t, sb)); err != nil {
			t.Error(err)
		}
		if err := sb.checkNet(os.Getpid()); err == nil || !strings.Contains(err.Error(), "another network namespace") {
			t.Errorf("a process of the host's network: %v", err)
		}
	})
}
