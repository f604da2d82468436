package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// The attempts of this file look for a wall that is not there: what they find is
// a condition, and no canary. Where they read what the kernel says they also read
// what the control plants in its place.

// condition is the observation of a wall that is there, or, with what was found,
// of one that is not.
func condition(found []string, looked string) manifest.Observation {
	if len(found) == 0 {
		return manifest.Observation{Sign: manifest.SignAbsent, Detail: looked}
	}
	return manifest.Observation{Sign: manifest.SignReached, Detail: strings.Join(found, " ")}
}

// statusFiles are where the kernel says what a process may do.
func statusFiles() []string {
	return []string{"/proc/self/status", plant.KernelRoot + "/proc/self/status"}
}

// statusField returns a field's values in all status files that there are.
func statusField(name string) []string {
	var out []string
	for _, path := range statusFiles() {
		b, err := kit.ReadHead(path, 64<<10)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(b), "\n") {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				out = append(out, strings.TrimSpace(value))
			}
		}
	}
	return out
}

// ordinary are the capabilities that root needs inside its own files and
// processes: to own and read files, to change users, to signal, to bind low ports.
// Every other one reaches the kernel, the network below the sockets, or devices.
const ordinary = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE

// capabilityNames are the names of the capabilities by their number
// (linux/capability.h).
var capabilityNames = []string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
	"SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"}

// capabilities looks for more of them than an ordinary program needs, in any set.
func capabilities(context.Context, *probes.Env) manifest.Observation {
	var more uint64
	for _, set := range []string{"CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"} {
		for _, value := range statusField(set) {
			bits, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				return manifest.Observation{Sign: manifest.SignError, Detail: set + " is not a number"}
			}
			more |= bits &^ ordinary
		}
	}
	var found []string
	for bit := range 64 {
		if more>>bit&1 == 0 {
			continue
		}
		name := strconv.Itoa(bit)
		if bit < len(capabilityNames) {
			name = capabilityNames[bit]
		}
		found = append(found, "CAP_"+name)
	}
	return condition(found, "no capability beyond the ordinary ones")
}

// calls are system calls by which programs reach for the kernel and that ordinary
// ones do without. Each is made with arguments that the kernel refuses, so that
// only the errno tells whether anybody stopped it before.
var calls = append([]call{
	{"bpf", unix.SYS_BPF, [4]uintptr{0xffff}},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [4]uintptr{}},
	{"userfaultfd", unix.SYS_USERFAULTFD, [4]uintptr{^uintptr(0)}},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [4]uintptr{0, 0}},
	{"keyctl", unix.SYS_KEYCTL, [4]uintptr{0xffff}},
	{"add_key", unix.SYS_ADD_KEY, [4]uintptr{0, 0, 0, 0}},
	{"request_key", unix.SYS_REQUEST_KEY, [4]uintptr{0, 0, 0, 0}},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [4]uintptr{^uintptr(0), 0, ^uintptr(0)}},
	{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [4]uintptr{^uintptr(0), 0, 0, 0}},
	{"mount", unix.SYS_MOUNT, [4]uintptr{0, 0, 0, 0}},
	{"umount2", unix.SYS_UMOUNT2, [4]uintptr{0, ^uintptr(0)}},
	{"pivot_root", unix.SYS_PIVOT_ROOT, [4]uintptr{0, 0}},
	{"move_mount", unix.SYS_MOVE_MOUNT, [4]uintptr{^uintptr(0), 0, ^uintptr(0), 0}},
	{"open_tree", unix.SYS_OPEN_TREE, [4]uintptr{^uintptr(0), 0, ^uintptr(0)}},
	{"fsopen", unix.SYS_FSOPEN, [4]uintptr{0, ^uintptr(0)}},
	{"setns", unix.SYS_SETNS, [4]uintptr{^uintptr(0), 0}},
	{"unshare", unix.SYS_UNSHARE, [4]uintptr{1 << 62}},
	{"quotactl", unix.SYS_QUOTACTL, [4]uintptr{^uintptr(0), 0, 0, 0}},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT, [4]uintptr{^uintptr(0), 0}},
	{"kcmp", unix.SYS_KCMP, [4]uintptr{^uintptr(0), ^uintptr(0), ^uintptr(0)}},
	{"move_pages", unix.SYS_MOVE_PAGES, [4]uintptr{^uintptr(0), 1, 0, 0}},
	{"migrate_pages", unix.SYS_MIGRATE_PAGES, [4]uintptr{^uintptr(0), 0, 0, 0}},
	{"mbind", unix.SYS_MBIND, [4]uintptr{1, 1, 0xffff}},
	{"personality", unix.SYS_PERSONALITY, [4]uintptr{noRandomize}}, // asking which it is reaches for nothing, and filters let it through
	{"syslog", unix.SYS_SYSLOG, [4]uintptr{0xffff}},
	{"sethostname", unix.SYS_SETHOSTNAME, [4]uintptr{0, ^uintptr(0)}},
	{"clone into a namespace", unix.SYS_CLONE, [4]uintptr{unix.CLONE_NEWNS | unix.CLONE_FS, 0, 0, 0}}, // the two exclude each other
	{"clone3", unix.SYS_CLONE3, [4]uintptr{0, 0}},
	{"socket to the host", unix.SYS_SOCKET, [4]uintptr{unix.AF_VSOCK, 0, 0, 0}},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER, [4]uintptr{^uintptr(0), 0, 0, 0xffffffff}},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER, [4]uintptr{^uintptr(0), 0xffff, 0, 0}},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR, [4]uintptr{^uintptr(0), 0, 0xffffffff, 0}},
	{"fsconfig", unix.SYS_FSCONFIG, [4]uintptr{^uintptr(0), 0xffff, 0, 0}},
	{"fanotify_mark", unix.SYS_FANOTIFY_MARK, [4]uintptr{^uintptr(0), 0xffffffff, 0, 0}},
	{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [4]uintptr{^uintptr(0), ^uintptr(0), 0xffffffff, 0}},
	{"process_madvise", unix.SYS_PROCESS_MADVISE, [4]uintptr{^uintptr(0), 0, 0, 0}},
	{"set_mempolicy_home_node", unix.SYS_SET_MEMPOLICY_HOME_NODE, [4]uintptr{1, 1, 0xffff, 0xffff}},
	{"swapon", unix.SYS_SWAPON, [4]uintptr{0, 0xffffffff}},
	{"clock_settime", unix.SYS_CLOCK_SETTIME, [4]uintptr{0xffff, 0}},
	{"settimeofday", unix.SYS_SETTIMEOFDAY, [4]uintptr{1, 0}},
	{"init_module", unix.SYS_INIT_MODULE, [4]uintptr{0, 0, 0}},                  // no bytes are no module
	{"finit_module", unix.SYS_FINIT_MODULE, [4]uintptr{^uintptr(0), 0, 0xffff}}, // no file, and flags that there are not
	{"delete_module", unix.SYS_DELETE_MODULE, [4]uintptr{0, 0}},                 // no name
}, callsOfMachine...)

type call struct {
	name string
	nr   uintptr
	args [4]uintptr
}

// noRandomize is ADDR_NO_RANDOMIZE of personality(2): programs started from then
// on have their memory where everybody expects it.
const noRandomize = 0x0040000

// systemCalls looks for a filter of system calls, and for calls that it lets
// through and should not.
func systemCalls(context.Context, *probes.Env) manifest.Observation {
	runtime.LockOSThread() // a personality is a thread's
	defer runtime.UnlockOSThread()
	var found []string
	for _, value := range statusField("Seccomp") {
		if value == "0" {
			found = append(found, "no filter")
		}
	}
	for _, c := range calls {
		fd, _, errno := unix.Syscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], 0, 0)
		switch errno {
		case unix.EPERM, unix.ENOSYS, unix.EACCES:
			continue
		case 0:
			if c.nr == unix.SYS_PERSONALITY {
				_, _, _ = unix.Syscall(unix.SYS_PERSONALITY, 0, 0, 0)
			}
			if c.nr == unix.SYS_UNSHARE || c.nr == unix.SYS_PERSONALITY {
				break
			}
			unix.Close(int(fd))
		}
		found = append(found, c.name)
	}
	return condition(found, kit.Count(len(calls), "call refused", "calls refused"))
}

// newPrivileges looks for leave to gain privileges by a set-user-id program.
func newPrivileges(context.Context, *probes.Env) manifest.Observation {
	var found []string
	for _, value := range statusField("NoNewPrivs") {
		if value == "0" {
			found = append(found, "programs can raise privileges")
		}
	}
	return condition(found, "no program can raise privileges")
}

// hostRoot looks whether user ids inside are those of the host.
func hostRoot(context.Context, *probes.Env) manifest.Observation {
	var found []string
	for _, path := range []string{"/proc/self/uid_map", plant.KernelRoot + "/proc/self/uid_map"} {
		b, err := kit.ReadHead(path, 64<<10)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(b), "\n") {
			fields := strings.Fields(line)
			if len(fields) == 3 && fields[0] == "0" && fields[1] == "0" {
				found = append(found, "root inside is root outside")
			}
		}
	}
	return condition(found, "ids are shifted")
}

// namespaces looks whether processes inside are in a namespace of the host's. Those that
// the kernel gives nobody anew (time, user) are no matter of this, and what the control
// plants stands in their place.
func namespaces(_ context.Context, env *probes.Env) manifest.Observation {
	var found []string
	if b, err := kit.ReadHead(plant.KernelRoot+"/proc/self/ns/pid", 64); err == nil && len(b) > 0 {
		found = append(found, "the host's pid")
	}
	looked := 0
	for _, ns := range slices.Sorted(maps.Keys(env.Facts.Local.HostNamespaces)) {
		link, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			continue
		}
		if looked++; link == env.Facts.Local.HostNamespaces[ns] {
			found = append(found, "the host's "+ns)
		}
	}
	return condition(found, kit.Count(looked, "namespace of its own", "namespaces of its own"))
}

// usual are the device nodes that every sandbox has.
var usual = regexp.MustCompile(`^/dev/(null|zero|full|random|urandom|tty|console|ptmx|pts/(ptmx|\d+)|fd|stdin|stdout|stderr|core|shm|mqueue|net/tun|fuse)$`)

// deviceNodes looks for every device node that is not a usual one: what is there is
// there for whoever gains the leave to open it. The control's look-alikes are files,
// which are opened and closed.
func deviceNodes(context.Context, *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	for _, pattern := range []string{"/dev/*", "/dev/*/*", plant.KernelRoot + "/dev/*"} {
		list, _ := filepath.Glob(pattern)
		for _, path := range list {
			info, err := os.Lstat(path)
			if err != nil || usual.MatchString(path) {
				continue
			}
			planted := strings.HasPrefix(path, plant.KernelRoot)
			if info.Mode()&os.ModeDevice == 0 && !planted {
				continue
			}
			looked++
			if !planted {
				found = append(found, path)
				continue
			}
			if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0); err == nil {
				unix.Close(fd)
				found = append(found, path)
			}
		}
	}
	return condition(found, kit.Count(looked, "unusual device", "unusual devices"))
}

// hidden are the kernel's files about the machine, its timers, memory and keys,
// which no namespace divides and which are therefore masked.
var hidden = []string{"proc/acpi/*", "proc/asound/*", "proc/interrupts", "proc/kallsyms", "proc/kcore", "proc/keys", "proc/key-users", "proc/kmsg",
	"proc/kpagecount", "proc/kpageflags", "proc/kpagecgroup", "proc/latency_stats", "proc/sched_debug", "proc/scsi/*", "proc/slabinfo", "proc/timer_list",
	"proc/timer_stats", "proc/vmallocinfo", "sys/devices/virtual/powercap/*", "sys/firmware/*", "sys/fs/selinux/*", "sys/kernel/debug/*",
	"sys/kernel/security/*", "sys/kernel/tracing/*"}

// always are those of them that every runtime's profile masks by default: there the
// mask itself is the wall, and it is missing also where who looks lacks leave to read.
var always = []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list",
	"/proc/timer_stats", "/sys/firmware"}

// hiddenFiles looks for masked files that can be read after all. A masked file is
// empty, a masked folder has no files.
func hiddenFiles(context.Context, *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	for _, path := range interfaces(hidden) {
		looked++
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if list, err := os.ReadDir(path); err == nil && len(list) > 0 {
				found = append(found, path)
			}
			continue
		}
		if info.Mode()&os.ModeDevice != 0 { // /dev/null in its place
			continue
		}
		b, err := kit.ReadHead(path, 16)
		if err == nil && len(b) > 0 || errors.Is(err, fs.ErrPermission) && slices.Contains(always, path) && ofKernel(path) {
			found = append(found, path)
		}
	}
	return condition(found, kit.Count(looked, "place", "places")+", all masked")
}

// inherited reads what the probe was given besides its streams: files, and what
// lies below and above folders.
func inherited(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		s.Miss(err)
	}
	if _, err := os.Stat(plant.KernelRoot + "/fd"); err == nil { // as the control has it
		s.Tree(plant.KernelRoot + "/fd")
	}
	for _, e := range list {
		n, err := strconv.Atoi(e.Name())
		path := "/proc/self/fd/" + e.Name()
		info, statErr := os.Stat(path)
		if err != nil || n <= 2 || statErr != nil {
			continue
		}
		switch {
		case info.IsDir():
			s.Folder(path, above)
			s.Tree(path + "/.")
		case info.Mode().IsRegular():
			if b := pread(n); b != nil {
				s.Bytes(b)
			}
			s.Special(path)
		}
	}
	return s.Observation()
}

// pread reads a file's beginning by its descriptor, where opening it again would
// ask for leave anew.
func pread(fd int) []byte {
	buf := make([]byte, 256<<10)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil || n <= 0 {
		return nil
	}
	return buf[:n]
}

// everything looks at every file.
func everything(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Everything()
	return s.Observation()
}

// imageText searches what the image says of itself: its configuration with
// variables, labels and history.
func imageText(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	if env.Facts.Local.Image == "" {
		return kit.Missing("the image's configuration is not at hand")
	}
	s.Bytes([]byte(env.Facts.Local.Image))
	o := s.Observation()
	o.Detail = fmt.Sprintf("%d bytes of configuration", len(env.Facts.Local.Image))
	return o
}
