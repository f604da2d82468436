package isolation

import (
	"fmt"
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
