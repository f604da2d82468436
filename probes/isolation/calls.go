package isolation

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/planter"
	"golang.org/x/sys/unix"
)

// Each of these asks the kernel for something that a sandbox may refuse, in a
// form that the kernel refuses anyway, or undoes it at once. "yes" means that it
// would have been granted: the kernel complained of the arguments and not of who
// asked.

// denied are the errnos by which a kernel or a filter says no to who asks.
var denied = map[unix.Errno]bool{unix.EPERM: true, unix.EACCES: true, unix.ENOSYS: true, unix.EOPNOTSUPP: true, unix.EROFS: true}

func grantedUnless(errno unix.Errno) string {
	if denied[errno] {
		return unix.ErrnoName(errno)
	}
	return "yes"
}

// call makes a system call with no valid argument at all.
func call(nr, first uintptr) string {
	fd, _, errno := unix.Syscall6(nr, first, 0, 0, 0, 0, 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	return grantedUnless(errno)
}

// userNamespace starts a process in a user namespace of its own, which ends at
// once.
func userNamespace() string {
	cmd := exec.Command("/proc/self/exe", planter.HoldArgument)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	r, w, err := os.Pipe()
	if err != nil {
		return reason(err)
	}
	w.Close()
	defer r.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, r, r // it has nothing to say, and its input ends at once
	if err := cmd.Start(); err != nil {
		return reason(err)
	}
	_ = cmd.Wait() // that it could be started is all that matters
	return "yes"
}

// messageQueues makes a queue, uses it, and removes it: some kernels have half of
// the calls.
func messageQueues() string {
	name := fmt.Sprintf("wallproof-facts-%d", os.Getpid())
	err := kit.MakeQueue(name, []byte("x"))
	if err == nil {
		_, err = kit.Queue(name)
	}
	if unlink := kit.RemoveQueue(name); err == nil {
		err = unlink
	}
	if err != nil {
		return reason(err)
	}
	return "yes"
}

// tryMount mounts nothing onto a path that does not exist.
func tryMount() string {
	err := unix.Mount("none", "/wallproof-facts-none", "tmpfs", 0, "")
	errno, _ := err.(unix.Errno)
	return grantedUnless(errno)
}

// mknod makes a device node and removes it at once.
func mknod() string {
	path := fmt.Sprintf("%s/wallproof-facts-%d", scratch(), os.Getpid())
	err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
	errno, _ := err.(unix.Errno)
	if err == nil {
		if err := unix.Unlink(path); err != nil {
			return "yes, and it could not be removed: " + err.Error()
		}
	}
	return grantedUnless(errno)
}

// scratch is a folder that exists, whatever the image has.
func scratch() string {
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return "/"
}

func userfaultfd() string {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	return grantedUnless(errno)
}

// openByHandle opens a handle of no type and no length.
func openByHandle() string {
	var handle [8]byte
	_, _, errno := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), uintptr(unsafe.Pointer(&handle[0])), unix.O_RDONLY) // AT_FDCWD
	return grantedUnless(errno)
}

// keyring makes a key that ends with this process: some kernels have half of the
// calls.
func keyring() string {
	if _, err := unix.AddKey("user", fmt.Sprintf("wallproof-facts-%d", os.Getpid()), []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING); err != nil {
		return reason(err)
	}
	return "yes"
}

// nobody is the id of a process that there is not: beyond what a kernel hands out
// (proc_sys_kernel(5), pid_max).
const nobody = 1<<22 + 1

// ofNobody says whether a call about a process would be made: the kernel then says that
// there is no such process.
func ofNobody(errno error) string {
	if errno == unix.ESRCH {
		return "yes"
	}
	if errno == nil {
		return "it succeeded for no process"
	}
	return reason(errno)
}

func ptrace() string { return ofNobody(unix.PtraceSeize(nobody)) }

func processVM() string {
	var b [1]byte
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(1)
	_, err := unix.ProcessVMReadv(nobody, []unix.Iovec{v}, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
	return ofNobody(err)
}

// pidfd takes over a descriptor of this process's own.
func pidfd() string {
	handle, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return reason(err)
	}
	defer unix.Close(handle)
	fd, err := unix.PidfdGetfd(handle, 0, 0)
	if err != nil {
		return reason(err)
	}
	unix.Close(fd)
	return "yes"
}

// onLink asks for a socket that is kept to a network segment, past all routes.
func onLink() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return reason(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1); err != nil {
		return reason(err)
	}
	set, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE)
	if err != nil {
		return reason(err)
	}
	if set != 1 {
		return "the setting is not kept"
	}
	links, err := net.Interfaces()
	if err != nil {
		return reason(err)
	}
	for _, l := range links {
		if l.Flags&net.FlagLoopback == 0 {
			if err := unix.BindToDevice(fd, l.Name); err != nil {
				return reason(err)
			}
			return "yes"
		}
	}
	return "there is no link"
}

// pageCache asks about a page that nobody has written and about one that has been: only
// a kernel that answers differently tells anything.
func pageCache() string {
	f, err := os.CreateTemp(scratch(), "wallproof-facts-")
	if err != nil {
		return reason(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	const far = 1 << 20
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		return reason(err)
	}
	if err := f.Truncate(2 * far); err != nil {
		return reason(err)
	}
	written, err := kit.Resident(int(f.Fd()), 0)
	if err != nil {
		return reason(err)
	}
	never, err := kit.Resident(int(f.Fd()), far)
	switch {
	case err != nil:
		return reason(err)
	case !written || never:
		return "the answer tells nothing"
	}
	return "yes"
}
