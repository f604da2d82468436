// Command guest is the program that the runc driver's own tests run inside a
// sandbox: it says what is possible there. It does nothing that outlives it but
// what is named in its arguments.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	switch os.Args[1] {
	case "hold":
		hold()
	case "headless":
		headless()
	case "facts":
		if err := json.NewEncoder(os.Stdout).Encode(facts()); err != nil {
			os.Exit(1)
		}
	case "read":
		b, err := os.ReadFile(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Stdout.Write(b)
	case "say-and-hold":
		fmt.Println("ready")
		hold()
	}
}

func hold() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGUSR1)
	<-c
}

// headless ends its first thread and goes on in the others, as a program does
// that wants to look dead.
func headless() {
	go hold()
	runtime.LockOSThread()
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

// facts are, for each thing tried, "yes" or the error's name, or what was read.
func facts() map[string]string {
	out := map[string]string{
		"new user namespace":    child(syscall.CLONE_NEWUSER),
		"new network namespace": thread(func() error { return unix.Unshare(unix.CLONE_NEWNET) }),
		"clone3":                errno(raw(unix.SYS_CLONE3, 0, 0, 0)),
		"mount":                 errno(unix.Mount("x", "/tmp", "tmpfs", 0, "")),
		"device":                errno(unix.Mknod("/tmp/device", unix.S_IFBLK|0o600, int(unix.Mkdev(1, 0)))),
		"bpf":                   errno(raw(unix.SYS_BPF, 99, 0, 0)),
		"perf":                  errno(raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)),
		"userfaultfd":           descriptor(raw1(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1)),
		"io_uring":              uring(),
		"key ring":              keyRing(),
		"vsock":                 socket(unix.AF_VSOCK, unix.SOCK_STREAM),
		"alg":                   socket(unix.AF_ALG, unix.SOCK_SEQPACKET),
		"packet":                socket(unix.AF_PACKET, unix.SOCK_RAW),
		"raw":                   socket3(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"ping":                  socket3(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP),
		"unix":                  socket(unix.AF_UNIX, unix.SOCK_STREAM),
		"personality":           errno(raw(unix.SYS_PERSONALITY, 0x0400000, 0, 0)), // READ_IMPLIES_EXEC
		"write core_pattern":    open("/proc/sys/kernel/core_pattern", unix.O_WRONLY),
		"write sysfs":           open("/sys/kernel/mm/transparent_hugepage/enabled", unix.O_WRONLY),
		"keys":                  content("/proc/keys"),
		"timers":                content("/proc/timer_list"),
		"ids":                   strings.Join(strings.Fields(line("/proc/self/uid_map")), " "),
		"umask":                 fmt.Sprintf("%03o", unix.Umask(0)),
		"interfaces":            interfaces(),
		"sysfs interfaces":      names("/sys/class/net"),
	}
	for _, l := range strings.Split(read("/proc/self/status"), "\n") {
		for _, name := range []string{"Seccomp", "NoNewPrivs", "CapBnd", "CapEff", "CapInh"} {
			if v, ok := strings.CutPrefix(l, name+":"); ok {
				out[name] = strings.TrimSpace(v)
			}
		}
	}
	out["chroot"] = errno(unix.Chroot("/tmp"))
	return out
}

func errno(err error) string {
	if err == nil {
		return "yes"
	}
	if e, ok := err.(unix.Errno); ok {
		return unix.ErrnoName(e)
	}
	return err.Error()
}

// thread tries on a thread that ends with what was tried.
func thread(f func() error) string {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return errno(<-done)
}

// child tries with a process that is made in new namespaces.
func child(flags uintptr) string {
	cmd := exec.Command("/proc/self/exe", "nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	err := cmd.Run()
	var e syscall.Errno
	if errors.As(err, &e) {
		return unix.ErrnoName(e)
	}
	return errno(err)
}

func raw(nr, a, b, c uintptr) error {
	if _, _, e := unix.Syscall(nr, a, b, c); e != 0 {
		return e
	}
	return nil
}

func raw1(nr, a uintptr) (int, error) {
	fd, _, e := unix.Syscall(nr, a, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

func descriptor(fd int, err error) string {
	if err == nil {
		unix.Close(fd)
	}
	return errno(err)
}

func uring() string {
	var params [120]byte // struct io_uring_params
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if e != 0 {
		return unix.ErrnoName(e)
	}
	unix.Close(int(fd))
	return "yes"
}

func keyRing() string {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, false)
	return errno(err)
}

func socket(family, kind int) string { return socket3(family, kind, 0) }

func socket3(family, kind, protocol int) string {
	return descriptor(unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol))
}

func open(path string, flags int) string { return descriptor(unix.Open(path, flags|unix.O_CLOEXEC, 0)) }

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func line(path string) string {
	first, _, _ := strings.Cut(read(path), "\n")
	return first
}

// content says whether a file has any.
func content(path string) string {
	if read(path) == "" {
		return "empty"
	}
	return "yes"
}

func names(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func interfaces() string {
	list, err := net.Interfaces()
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, i := range list {
		out = append(out, i.Name)
	}
	return strings.Join(out, " ")
}
