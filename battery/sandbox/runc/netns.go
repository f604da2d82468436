package runc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// A hardened sandbox's user namespace has no rights over a network namespace
// that was made outside of it, as Spec.NetNS is. So the runtime can neither mount
// its /sys nor enter it when it runs a command. Both are then done for it: /sys is
// mounted on the host, and the runtime is started in the network namespace and
// told of none, so that what it starts stays where it is.

// givenNet says whether the sandbox gets its network in that way.
func (p Profile) givenNet(spec sandbox.Spec) bool {
	return p == Hardened && spec.NetNS != "" && p.base(spec) != 0
}

// openNet takes hold of the network namespace, so that every command runs in the
// same one, whatever happens to its name.
func (b *box) openNet() error {
	if !b.profile.givenNet(b.spec) {
		return nil
	}
	f, err := os.Open(b.spec.NetNS)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	b.net = f
	return nil
}

// start starts the runtime, in the sandbox's network namespace where it is to be
// given. If that fails nothing is started. What it starts inherits its umask,
// which is to be the same whatever ours is.
func (b *box) start(cmd *exec.Cmd) error {
	if b.net == nil && b.profile.givenNet(b.spec) {
		return errors.New("the network namespace is closed")
	}
	return onThread(func() error {
		if b.net != nil {
			if err := enterNet(b.net); err != nil {
				return err
			}
		}
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("set the umask: %w", err)
		}
		unix.Umask(umask)
		return cmd.Start()
	})
}

// umask is that of what the runtime starts.
const umask = 0o022

// onThread calls f on a thread of its own, which ends with it and whatever f
// made of it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		done <- f()
	}()
	return <-done
}

// inNet calls f on a thread in a network namespace.
func inNet(net *os.File, f func() error) error {
	return onThread(func() error {
		if err := enterNet(net); err != nil {
			return err
		}
		return f()
	})
}

// enterNet moves the calling thread. It holds the file open meanwhile, which Stop
// may close at any time.
func enterNet(net *os.File) error {
	conn, err := net.SyscallConn()
	if err != nil {
		return err
	}
	var entered error
	err = conn.Control(func(fd uintptr) { entered = unix.Setns(int(fd), unix.CLONE_NEWNET) })
	if err := errors.Join(err, entered); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", net.Name(), err)
	}
	return nil
}

// allowPing lets the ids of a sandbox open sockets for ICMP echo in a network
// namespace, as Docker does: they need no raw sockets for it then.
func allowPing(net *os.File, base uint32) error {
	err := inNet(net, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", fmt.Appendf(nil, "%d %d", base, base+bundle.IDCount-1), 0)
	})
	if err != nil {
		return fmt.Errorf("allow ICMP echo: %w", err)
	}
	return nil
}

// mountSysfs mounts the /sys of a network namespace at a folder, which it makes.
func mountSysfs(net *os.File, at string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	err := inNet(net, func() error {
		return unix.Mount("sysfs", at, "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	})
	if err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	return nil
}

// checkNet makes sure that the first process is in the network namespace that it
// is to be in, and where there is none to be in, not in ours: whatever the runtime
// did, nothing runs in the host's network.
func (b *box) checkNet(pid int) error {
	its, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	if err != nil {
		return nil // it has ended
	}
	want := b.spec.NetNS
	if want == "" {
		want = "/proc/self/ns/net"
	}
	other, err := os.Stat(want)
	if err != nil {
		return fmt.Errorf("check the network namespace: %w", err)
	}
	if os.SameFile(its, other) != (b.spec.NetNS != "") {
		return errors.New("the runtime put the sandbox into another network namespace than it was told")
	}
	return nil
}
