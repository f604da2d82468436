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
)

// A hardened sandbox's user namespace has no rights over a network namespace
// that was made outside of it, as Spec.NetNS is. So the runtime can neither mount
// its /sys nor enter it when it runs a command. Both are then done for it: /sys is
// mounted on the host, and the runtime is started in the network namespace and
// told of none, so that what it starts stays where it is.

// givenNet says whether the sandbox gets its network in that way.
func (p Profile) givenNet(spec sandbox.Spec) bool {
	return p == Hardened && spec.NetNS != "" && spec.IDBase != 0
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
// given. If that fails nothing is started.
func (b *box) start(cmd *exec.Cmd) error {
	if b.net == nil {
		if b.profile.givenNet(b.spec) {
			return errors.New("the network namespace is closed")
		}
		return cmd.Start()
	}
	return inNet(b.net, cmd.Start)
}

// inNet calls f on a thread in a network namespace. The thread ends with it.
func inNet(net *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := enterNet(net); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", net.Name(), err)
			return
		}
		done <- f()
	}()
	return <-done
}

// enterNet holds the file open meanwhile, which Stop may close at any time.
func enterNet(net *os.File) error {
	conn, err := net.SyscallConn()
	if err != nil {
		return err
	}
	var entered error
	err = conn.Control(func(fd uintptr) { entered = unix.Setns(int(fd), unix.CLONE_NEWNET) })
	return errors.Join(err, entered)
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
