//go:build linux && (amd64 || arm64)

package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Self confines a whole process that goes on to need files by name, as a proxy that
// takes edits of its policy does: no core dump, no tracing by its own user, memory
// locked where the limits allow it, no capability, no new privileges, and the filter
// of system calls of Process. A process of root becomes user uid with group gid,
// unless uid is 0. Files stay: the host's, as far as that user may have them. It is
// for after the sockets were opened.
func Self(uid, gid int) (Facts, error) {
	var f Facts
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return f, fmt.Errorf("forbid core dumps: %w", err)
	}
	if os.Geteuid() == 0 { // where root may: a limit stands in the way of locking memory
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	}
	f.MemoryLocked = lockMemory()
	if err := becomeUser(uid, gid); err != nil {
		return f, err
	}
	// A change of user makes the process traceable again, or not, as a setting says.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return f, fmt.Errorf("forbid tracing: %w", err)
	}
	if err := filterCalls(); err != nil {
		return f, fmt.Errorf("filter system calls: %w", err)
	}
	f.Seccomp = true
	return f, nil
}

// becomeUser gives up root's capabilities, and root itself where a user is named.
func becomeUser(uid, gid int) error {
	switch {
	case os.Geteuid() != 0 && uid != 0 && uid != os.Geteuid():
		return errors.New("only root can become another user")
	case os.Geteuid() != 0:
		return nil // it has no capability, and no_new_privs keeps it so
	}
	if uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
			return fmt.Errorf("become user %d: %w", uid, err)
		}
		return nil
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
