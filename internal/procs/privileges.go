package procs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxCapability bounds the search for the kernel's last capability; Linux has
// room for 64.
const maxCapability = 63

// shedPrivileges prepares the calling thread so that a process forked from it
// has no way to privileges once it has changed its user and executed: no
// bounding set, no ambient and inheritable set, no_new_privs. The thread itself
// keeps its permitted set, which the fork needs to change user.
func shedPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := uintptr(0); c <= maxCapability; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // beyond the kernel's last capability
			break
		}
		if err != nil {
			return fmt.Errorf("drop capability %d from the bounding set (root is needed): %w", c, err)
		}
	}
	return clearInheritable()
}

func clearInheritable() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("clear inheritable capabilities: %w", err)
	}
	return nil
}

// forbidCore sets the child's RLIMIT_CORE to 0, soft and hard. It runs before
// the child is given its configuration, so before there is anything worth
// dumping. The kernel wants the caller's real ids to be the child's (or
// CAP_SYS_RESOURCE, which root in a container often lacks), so the calling
// thread, which is thrown away later, takes them for the one call. Its effective
// user stays root throughout.
func forbidCore(pid int, uid, gid uint32) error {
	const keep = ^uintptr(0) // -1: leave unchanged
	if err := setReal(unix.SYS_SETRESGID, uintptr(gid), keep); err != nil {
		return fmt.Errorf("borrow gid %d: %w", gid, err)
	}
	if err := setReal(unix.SYS_SETRESUID, uintptr(uid), keep); err != nil {
		return fmt.Errorf("borrow uid %d: %w", uid, err)
	}
	limitErr := unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	// Back at once: while the real uid is the child's, the child may signal us.
	if err := setReal(unix.SYS_SETRESUID, 0, keep); err != nil {
		return fmt.Errorf("return to uid 0: %w", err)
	}
	if err := setReal(unix.SYS_SETRESGID, 0, keep); err != nil {
		return fmt.Errorf("return to gid 0: %w", err)
	}
	if limitErr != nil {
		return fmt.Errorf("forbid core dumps of process %d: %w", pid, limitErr)
	}
	return nil
}

// setReal sets the real id of the calling thread only; the syscall package would
// set it for all threads.
func setReal(call, id, keep uintptr) error {
	if _, _, errno := unix.RawSyscall(call, id, keep, keep); errno != 0 {
		return errno
	}
	return nil
}
