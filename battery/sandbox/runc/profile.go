package runc

import (
	"fmt"
	"path/filepath"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// Profile says how much care is taken.
type Profile string

const (
	// Hardened: a user namespace of its own, no capability that reaches beyond the
	// sandbox's files, a system call filter, masked kernel files.
	Hardened Profile = "runc"
	// Bare: root is the host's root, with the capabilities that Docker gave before
	// it was more careful and what else "runc spec" writes into a configuration, but
	// for its masked and read-only paths: root inside can steer the host's kernel. It
	// is for calibration, never for code that one mistrusts.
	Bare Profile = "runc-bare"
)

// bareCapabilities are Docker's defaults of old, in all sets that they then
// were in (CVE-2022-24769 is about the inheritable one).
var bareCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// maskedPaths show the host's hardware, timers and keys, which no namespace
// divides.
var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/slabinfo", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
	"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/selinux", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing",
}

// readonlyPaths steer the host's kernel.
var readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

const (
	// spareTasks are what the limit of processes leaves to the runtime, which
	// itself becomes a process inside for every command.
	spareTasks = 64
	// devBytes bounds /dev of the hardened profile, which only holds nodes.
	devBytes = 1 << 20
	// inodeBytes is how much disk goes with one file of it.
	inodeBytes  = 4 << 10
	minInodes   = 8 << 10
	layerExtra  = 1 << 20 // for the mount points
	sysfsFolder = "sys"   // below bundle.Dir.Mounts
)

// base is the host id of the root user inside.
func (p Profile) base(spec sandbox.Spec) uint32 {
	if p == Bare || spec.Breaks.SharesIDs() {
		return 0
	}
	return spec.IDBase
}

// overlayFlags are the mount flags of the root.
func (p Profile) overlayFlags() uintptr {
	if p == Bare {
		return 0
	}
	return unix.MS_NOSUID | unix.MS_NODEV
}

// ociSpec is the OCI configuration of a sandbox; spec's limits are complete and
// its mounts' sources are ready to be used.
func (p Profile) ociSpec(spec sandbox.Spec, d bundle.Dir, h host) *specs.Spec {
	s := &specs.Spec{
		Version:  bundle.OCIVersion,
		Root:     &specs.Root{Path: d.Root()},
		Hostname: bundle.Hostname(spec),
		Process:  p.process(spec, sandbox.Command{Argv: spec.Init, Env: spec.Env}, h),
		Mounts:   p.mounts(spec, d),
		Linux: &specs.Linux{
			CgroupsPath: "/" + spec.ID,
			Namespaces:  p.namespaces(spec, h),
			Resources:   resources(spec, h),
		},
	}
	if p == Hardened {
		if p.base(spec) != 0 {
			s.Linux.UIDMappings, s.Linux.GIDMappings = bundle.IDMappings(spec), bundle.IDMappings(spec)
		}
		s.Linux.MaskedPaths, s.Linux.ReadonlyPaths, s.Linux.Seccomp = maskedPaths, readonlyPaths, systemCalls()
	}
	return bundle.BreakSpec(spec, s)
}

// process is the OCI form of a command in a sandbox.
func (p Profile) process(spec sandbox.Spec, c sandbox.Command, h host) *specs.Process {
	if p == Bare {
		all := bareCapabilities
		return bundle.Process(spec, c, specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all, Inheritable: all})
	}
	root := bundle.RootCapabilities
	out := bundle.Process(spec, c, specs.LinuxCapabilities{Bounding: root, Effective: root, Permitted: root})
	out.ApparmorProfile = h.apparmor
	return out
}

func (p Profile) namespaces(spec sandbox.Spec, h host) []specs.LinuxNamespace {
	ns := bundle.Namespaces(spec)
	if p.givenNet(spec) {
		ns = slices.DeleteFunc(ns, func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace })
	}
	if p == Hardened && p.base(spec) != 0 {
		ns = append(ns, specs.LinuxNamespace{Type: specs.UserNamespace})
	}
	if p == Hardened || h.cgroups == bundle.CgroupsV2 { // as "runc spec" does
		ns = append(ns, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return ns
}

func resources(spec sandbox.Spec, h host) *specs.LinuxResources {
	tasks := spec.Limits.Processes + spareTasks
	r := &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}, // the runtime adds the usual ones
		Memory:  &specs.LinuxMemory{Limit: &spec.Limits.MemoryBytes},
		Pids:    &specs.LinuxPids{Limit: &tasks},
	}
	if h.swap {
		r.Memory.Swap = &spec.Limits.MemoryBytes // memory and swap together
	}
	return r
}

// mounts lists the kernel's file systems, as "runc spec" has them, the generated
// files and the spec's mounts.
func (p Profile) mounts(spec sandbox.Spec, d bundle.Dir) []specs.Mount {
	plain := []string{"nosuid", "noexec", "nodev"}
	with := func(o ...string) []string { return append(slices.Clone(plain), o...) }
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: plain},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", fmt.Sprintf("size=%d", devBytes)}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: with("mode=1777", fmt.Sprintf("size=%d", bundle.ShmSize(spec)))},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: plain},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: with("ro")},
	}
	switch {
	case p == Bare:
		list[0].Options = nil
		list[1].Options = []string{"nosuid", "strictatime", "mode=755", "size=65536k"}
		list = append(list, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: with("relatime", "ro")})
	case p.givenNet(spec):
		list[5] = specs.Mount{Destination: "/sys", Type: "bind", Source: filepath.Join(d.Mounts(), sysfsFolder), Options: with("rbind", "ro")}
	}
	return append(list, bundle.Binds(spec, d)...)
}

// layer is the root of a sandbox.
func (p Profile) layer(spec sandbox.Spec) bundle.Root {
	return bundle.Root{
		Image: spec.Rootfs, Base: p.base(spec), Flags: p.overlayFlags(), Mounts: spec.Mounts,
		Bytes: spec.Limits.DiskBytes + layerExtra, Inodes: max(minInodes, spec.Limits.DiskBytes/inodeBytes),
	}
}
