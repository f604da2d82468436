//go:build linux && (amd64 || arm64)

package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// firstNamespaces are the inode numbers that the kernel gives its first
// namespaces (include/linux/proc_ns.h). Whoever is in another one was put there.
var firstNamespaces = map[string]uint64{
	"user": 0xEFFFFFFD, "pid": 0xEFFFFFFC, "ipc": 0xEFFFFFFF, "uts": 0xEFFFFFFE,
}

// leaveHost leaves the host's files and gives up what capabilities the process
// has over namespaces of its own. A process without such namespaces keeps its
// root; whoever started it sees that in the facts.
func (f *Facts) leaveHost() error {
	own, err := ownUserNamespace()
	if err != nil {
		return fmt.Errorf("read its namespaces: %w", err)
	}
	if !own {
		return nil
	}
	for _, kind := range []string{"user", "pid", "ipc", "uts"} {
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/"+kind, &st); err == nil && st.Ino != firstNamespaces[kind] {
			f.Namespaces = append(f.Namespaces, kind)
		}
	}
	if err := emptyRoot(); err != nil {
		return fmt.Errorf("leave the host's files: %w", err)
	}
	f.Namespaces, f.EmptyRoot = append(f.Namespaces, "mnt"), true
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// ownUserNamespace says whether this is user 0 of a user namespace that has no
// other user, as package procs makes them.
func ownUserNamespace() (bool, error) {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	m := strings.Fields(string(b))
	return len(m) == 3 && m[0] == "0" && m[1] != "0" && m[2] == "1" && os.Getuid() == 0, nil
}

// emptyRoot makes an empty read-only folder the root of the process, and takes
// the host's mounts out of its mount namespace.
func emptyRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	var err error
	for _, dir := range []string{"/tmp", "/run", "/dev", "/proc", "/etc"} {
		if err = unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,nr_inodes=1,mode=0555"); err == nil {
			err = unix.Chdir(dir)
			break
		}
	}
	if err != nil {
		return fmt.Errorf("mount an empty folder: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root now lies over the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// maxCapability bounds the search for the kernel's last capability.
const maxCapability = 63

// dropCapabilities empties all sets of all threads, the bounding set first.
func dropCapabilities() error {
	for c := uintptr(0); c <= maxCapability; c++ {
		_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
		if errno == unix.EINVAL { // beyond the last one
			break
		}
		if errno != 0 {
			return errno
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none)), 0)
	runtime.KeepAlive(&hdr)
	runtime.KeepAlive(&none)
	switch {
	case errno == syscall.ENOTSUP:
		return errors.New("a build with cgo, whose threads the runtime does not know")
	case errno != 0:
		return errno
	}
	return nil
}
