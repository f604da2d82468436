//go:build linux && (amd64 || arm64)

// Package confine takes away from a running process what it does not need any
// more: new programs and processes, other namespaces, kernel interfaces, every
// file. What cannot be taken back afterwards is: not by the process, and not by
// whoever takes it over.
package confine

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Facts are what is in force, for the record.
type Facts struct {
	Seccomp      bool `json:"seccomp"`
	Landlock     int  `json:"landlock"`     // version of the kernel's interface, 0 without
	MemoryLocked bool `json:"memoryLocked"` // pages with secrets are not swapped
	CoreDumps    bool `json:"coreDumps"`    // always false: an error otherwise
	// Namespaces are those that the process shares with no other: of "user", "mnt",
	// "pid", "ipc", "uts".
	Namespaces []string `json:"namespaces,omitempty"`
	EmptyRoot  bool     `json:"emptyRoot"` // its root is a folder without a file
}

// Process confines the whole process, all its threads. It needs no privilege.
// Seccomp is a must; Landlock and locked memory are taken where the kernel and
// the limits of the process allow them.
func Process() (Facts, error) {
	var f Facts
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return f, fmt.Errorf("forbid core dumps: %w", err)
	}
	f.MemoryLocked = lockMemory()
	if err := f.leaveHost(); err != nil {
		return f, err
	}
	if err := filterCalls(); err != nil {
		return f, fmt.Errorf("filter system calls: %w", err)
	}
	f.Seccomp = true
	var err error
	if f.Landlock, err = forbidFiles(); err != nil {
		return f, fmt.Errorf("forbid files: %w", err)
	}
	return f, nil
}

// lockMemory keeps pages out of swap where no limit stands in the way: with a
// limit, a later allocation would fail.
func lockMemory() bool {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim) != nil || lim.Cur != unix.RLIM_INFINITY {
		return false
	}
	return unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE) == nil
}

// landlockRights are all file rights of the first version of Landlock; later
// versions are asked for theirs, too.
var landlockRights = []uint64{1: 1<<13 - 1, 2: 1<<14 - 1, 3: 1<<15 - 1, 4: 1<<15 - 1, 5: 1<<16 - 1}

// forbidFiles denies every file by name. Descriptors that are open stay good.
func forbidFiles() (version int, err error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, nil // a kernel without it
	}
	rights := landlockRights[min(int(v), len(landlockRights)-1)]
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rights}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return 0, errno
	}
	defer unix.Close(int(fd))
	_, _, errno = syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	switch {
	case errno == syscall.ENOTSUP:
		return 0, nil // a build with cgo, whose threads the runtime does not know
	case errno != 0:
		return 0, errno
	}
	return int(v), nil
}

// denied are calls that a proxy has no use for. They fail with EPERM.
var denied = append([]uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_PERSONALITY, unix.SYS_SETHOSTNAME, unix.SYS_PIDFD_GETFD,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_FSCONFIG,
}, deniedHere...)

// Values of a filter (linux/filter.h, linux/seccomp.h).
const (
	ldAbs       = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEq      = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpGE      = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jumpSet     = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	ret         = unix.BPF_RET | unix.BPF_K
	retAllow    = 0x7fff0000
	retErrno    = 0x00050000
	retKill     = 0x80000000
	offNr       = 0
	offArch     = 4
	offArg0     = 16 // low half, on a little-endian machine
	setFilter   = 1  // SECCOMP_SET_MODE_FILTER
	flagTsync   = 1  // SECCOMP_FILTER_FLAG_TSYNC
	x32Bit      = 0x40000000
	cloneThread = unix.CLONE_THREAD
)

// program builds the filter: the right architecture; no new process but
// threads; sockets of the Internet and Unix families only; nothing that is
// denied by number.
func program() []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, t, f uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: t, Jf: f, K: k}
	}
	eperm := stmt(ret, retErrno|uint32(unix.EPERM))
	p := []unix.SockFilter{
		stmt(ldAbs, offArch),
		jump(jumpEq, auditArch, 1, 0),
		stmt(ret, retKill),
		stmt(ldAbs, offNr),
		jump(jumpGE, x32Bit, 0, 1),
		stmt(ret, retKill),
		// clone3 hides its flags behind a pointer: "not there" makes callers use clone.
		jump(jumpEq, unix.SYS_CLONE3, 0, 1),
		stmt(ret, retErrno|uint32(unix.ENOSYS)),
		jump(jumpEq, unix.SYS_CLONE, 0, 4),
		stmt(ldAbs, offArg0),
		jump(jumpSet, cloneThread, 0, 1),
		stmt(ret, retAllow),
		eperm,
		jump(jumpEq, unix.SYS_SOCKET, 0, 6),
		stmt(ldAbs, offArg0),
		jump(jumpEq, unix.AF_INET, 3, 0),
		jump(jumpEq, unix.AF_INET6, 2, 0),
		jump(jumpEq, unix.AF_UNIX, 1, 0),
		eperm,
		stmt(ret, retAllow),
	}
	for _, nr := range denied {
		p = append(p, jump(jumpEq, nr, 0, 1), eperm)
	}
	return append(p, stmt(ret, retAllow))
}

// filterCalls installs the filter in all threads at once. The kernel forbids
// them new privileges at the same time.
func filterCalls() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := program()
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, setFilter, flagTsync, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return errno
	case r != 0:
		return errors.New("a thread could not be included")
	}
	return nil
}
