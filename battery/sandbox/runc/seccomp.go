package runc

import (
	"runtime"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// The filter names what may be called; every other call fails with EPERM. What
// is left out is, in the spirit of Docker's default filter, what steers the host
// (modules, time, swap, mounts, accounting, tracing of the kernel), what makes or
// enters namespaces, what no namespace divides (key rings, the kernel's log), and
// what has been the way in for most of the kernel's recent flaws without being
// needed by ordinary programs (io_uring, userfaultfd, BPF, rare socket families).
var (
	callsOnFiles = []string{
		"access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3", "faccessat", "faccessat2",
		"fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr",
		"flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr",
		"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "ioctl", "lchown", "lgetxattr", "link", "linkat", "listxattr", "llistxattr",
		"lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat", "openat2", "pread64",
		"preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "removexattr", "rename", "renameat",
		"renameat2", "rmdir", "sendfile", "setxattr", "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs",
		"tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev",
	}
	callsOnMemory = []string{
		"brk", "cachestat", "get_mempolicy", "madvise", "map_shadow_stack", "membarrier", "memfd_create", "memfd_secret", "mincore", "mlock", "mlock2", "mlockall", "mmap",
		"mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "process_mrelease", "remap_file_pages",
		"set_mempolicy", "shmat", "shmctl", "shmdt", "shmget",
	}
	callsOnProcesses = []string{
		"alarm", "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
		"get_robust_list", "get_thread_area", "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
		"getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kill", "landlock_add_rule",
		"landlock_create_ruleset", "landlock_restrict_self", "pause", "pidfd_open", "pidfd_send_signal", "prctl", "prlimit64", "process_vm_readv", "process_vm_writev",
		"ptrace", "restart_syscall", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend",
		"rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
		"sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp",
		"set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid", "setpriority", "setregid",
		"setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sigaltstack", "signalfd", "signalfd4", "tgkill", "tkill", "vfork", "wait4", "waitid",
	}
	callsOnWaiting = []string{
		"clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
		"eventfd", "eventfd2", "getitimer", "gettimeofday", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit", "nanosleep", "poll",
		"ppoll", "pselect6", "select", "setitimer", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
		"timerfd_create", "timerfd_gettime", "timerfd_settime", "times",
	}
	callsOnTalking = []string{
		"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "mq_getsetattr", "mq_notify", "mq_open",
		"mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "pipe", "pipe2", "recvfrom", "recvmmsg", "recvmsg", "semctl",
		"semget", "semop", "semtimedop", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
	}
	callsOnSystem = []string{"getrandom", "sysinfo", "uname"}
)

// families are the kinds of sockets that may be opened.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// personalities are Linux, 32 bits, the old version number, both, and the
// question which it is.
var personalities = []uint64{0, 0x0008, 0x20000, 0x20008, 0xffffffff}

// namespaceFlags are clone's flags that make a namespace.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// architectures are libseccomp's names. A call of another one ends the process.
var architectures = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// systemCalls is the hardened profile's filter.
func systemCalls() *specs.LinuxSeccomp {
	refused, missing := uint(unix.EPERM), uint(unix.ENOSYS)
	f := &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno, DefaultErrnoRet: &refused,
		Syscalls: []specs.LinuxSyscall{
			{Names: slices.Concat(callsOnFiles, callsOnMemory, callsOnProcesses, callsOnWaiting, callsOnTalking, callsOnSystem), Action: specs.ActAllow},
			{Names: []string{"clone"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 0, Value: namespaceFlags, ValueTwo: 0, Op: specs.OpMaskedEqual}}},
			// Its flags are in memory, where a filter cannot see them; on ENOSYS libraries
			// fall back to clone.
			{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &missing},
		},
	}
	if arch, ok := architectures[runtime.GOARCH]; ok {
		f.Architectures = []specs.Arch{arch}
	}
	f.Syscalls = append(f.Syscalls, oneOf("socket", families)...)
	f.Syscalls = append(f.Syscalls, oneOf("personality", personalities)...)
	return f
}

// oneOf allows a call where its first argument is one of the values.
func oneOf(name string, values []uint64) []specs.LinuxSyscall {
	var out []specs.LinuxSyscall
	for _, v := range values {
		out = append(out, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{{Index: 0, Value: v, Op: specs.OpEqualTo}}})
	}
	return out
}
