// Package isolation measures, from inside, what isolates a process: what the
// evidence says of the sandbox is what was found there and not what was
// configured. Every check is harmless: it opens and closes, or asks.
//
// A fact about a facility is "yes" where there is such a facility, or else why
// not, as an errno's name. Facts about limits are the kernel's own words.
package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxValue bounds one fact.
const maxValue = 256

// Measure returns the facts by name.
func Measure() map[string]string {
	out := map[string]string{
		"kernel":     firstLine("/proc/version"),
		"uid":        strconv.Itoa(os.Getuid()),
		"gid":        strconv.Itoa(os.Getgid()),
		"lsm":        lsm(),
		"uidMap":     strings.Join(strings.Fields(firstLine("/proc/self/uid_map")), " "),
		"cgroup":     firstLine("/proc/self/cgroup"),
		"mounts":     mounts(),
		"devices":    devices(),
		"processes":  strconv.Itoa(processes()),
		"descriptor": descriptors(),

		"rawSocket":    socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"pingSocket":   socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP),
		"packetSocket": socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"ipv6":         socket(unix.AF_INET6, unix.SOCK_STREAM, 0),
		"vsock":        socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"netlink":      socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		"procMem":      procMem(),
		"ioUring":      ioUring(),
		"sysvShm":      sysvShm(),

		"userNamespace": userNamespace(),
		"messageQueues": messageQueues(),
		"mount":         tryMount(),
		"mknod":         mknod(),
		"bpf":           call(unix.SYS_BPF, 0xffff),
		"perfEvents":    call(unix.SYS_PERF_EVENT_OPEN, 0),
		"userfaultfd":   userfaultfd(),
		"openByHandle":  openByHandle(),
		"moduleLoad":    call(unix.SYS_INIT_MODULE, 0),
		"keyring":       keyring(),
		"ptrace":        ptrace(),
		"processVM":     processVM(),
		"pidfd":         pidfd(),
		"onLink":        onLink(),
		"pageCache":     pageCache(),

		"securityModule": securityModule(),
	}
	out["ping"] = out["pingSocket"]
	if out["rawSocket"] == "yes" {
		out["ping"] = "yes" // either will do
	}
	for name, field := range map[string]string{"seccomp": "Seccomp:", "noNewPrivs": "NoNewPrivs:", "capEff": "CapEff:", "capBnd": "CapBnd:", "capPrm": "CapPrm:"} {
		out[name] = status(field)
	}
	for k, v := range out {
		out[k] = clean(v)
	}
	return out
}

// clean keeps a fact short and printable.
func clean(s string) string {
	if len(s) > maxValue {
		s = s[:maxValue]
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return reason(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// reason names an error: its errno where it has one.
func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) && unix.ErrnoName(errno) != "" {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func status(field string) string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return reason(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strings.TrimSpace(value)
		}
	}
	return "not reported"
}

func lsm() string {
	if b, err := os.ReadFile("/sys/kernel/security/lsm"); err == nil {
		return strings.TrimSpace(string(b))
	}
	return strings.TrimRight(firstLine("/proc/self/attr/current"), "\x00")
}

// securityModule tells whether the kernel has a module that knows processes by labels:
// without one it has no label to tell.
func securityModule() string {
	b, err := os.ReadFile("/proc/self/attr/current")
	if err != nil {
		return reason(err)
	}
	if strings.Trim(string(b), "\x00\n ") == "" {
		return "the label is empty"
	}
	return "yes"
}

// mounts counts the mounted file systems by type.
func mounts() string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return reason(err)
	}
	count := map[string]int{}
	for _, line := range strings.Split(string(b), "\n") {
		if _, right, ok := strings.Cut(line, " - "); ok {
			count[strings.Fields(right)[0]]++
		}
	}
	var out []string
	for kind, n := range count {
		out = append(out, fmt.Sprintf("%s:%d", kind, n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func devices() string {
	list, _ := filepath.Glob("/dev/*")
	var out []string
	for _, path := range list {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeDevice != 0 {
			out = append(out, filepath.Base(path))
		}
	}
	return strings.Join(out, " ")
}

func processes() int {
	list, _ := filepath.Glob("/proc/[0-9]*")
	return len(list)
}

// descriptors lists what this process was given besides its standard streams.
func descriptors() string {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return reason(err)
	}
	var out []string
	for _, e := range list {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if n, _ := strconv.Atoi(e.Name()); n > 2 && err == nil && !strings.HasPrefix(target, "/proc/") && !strings.HasPrefix(target, "/sys/fs/cgroup/") && !strings.HasPrefix(target, "anon_inode:") {
			out = append(out, e.Name()+"="+target)
		}
	}
	return strings.Join(out, " ")
}

func socket(domain, kind, proto int) string {
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return reason(err)
	}
	unix.Close(fd)
	return "yes"
}

func procMem() string {
	f, err := os.Open("/proc/1/mem")
	if err != nil {
		return reason(err)
	}
	f.Close()
	return "yes"
}

// ioUring sets up the smallest ring and closes it.
func ioUring() string {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		return reason(errno)
	}
	unix.Close(int(fd))
	return "yes"
}

func sysvShm() string {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
	if err != nil {
		return reason(err)
	}
	if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
		return reason(err)
	}
	return "yes"
}
