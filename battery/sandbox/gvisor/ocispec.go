package gvisor

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/wallproof/wallproof/battery/sandbox"
)

const (
	platform   = "systrap"
	ociVersion = "1.1.0"
	idCount    = 1 << 16 // ids inside, mapped from Spec.IDBase on
	shmBytes   = 64 << 20
	maxFiles   = 4096 // open files a process
	// hostTasksPerProcess is how many threads on the host a process inside may
	// need: its own, the one that serves its system calls, and slack.
	hostTasksPerProcess = 3
	hostTasksBase       = 256
)

// rootCaps are what a process of user 0 gets inside. Others get none. They are
// what a package manager needs, without raw sockets, device nodes and chroot.
var rootCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE",
}

// runFlags are the runtime's global flags that decide how a sandbox is
// isolated, written out even where they are its defaults.
func runFlags(spec sandbox.Spec, cg cgroupMode) []string {
	network := "sandbox" // gVisor's own network stack
	if spec.NetNS == "" {
		network = "none" // loopback only
	}
	return []string{
		"--platform=" + platform,
		"--network=" + network,
		fmt.Sprintf("--overlay2=root:memory,size=%d", spec.Limits.DiskBytes),
		// Without a user namespace the sandbox process would be root on the host
		// to reach files by itself; then it is nobody, and asks the gofer.
		fmt.Sprintf("--directfs=%t", spec.IDBase != 0),
		"--gofer-network-namespace=new",
		"--file-access=exclusive",
		"--file-access-mounts=shared",
		"--host-uds=none",
		"--host-fifo=none",
		"--character-device-policy=emulated-only",
		"--net-raw=false",
		"--allow-packet-socket-write=false",
		"--allow-suid=false",
		"--host-settings=ignore",
		fmt.Sprintf("--ignore-cgroups=%t", cg == cgroupNone),
	}
}

// ociSpec is the OCI configuration of a sandbox; spec's limits are complete.
func ociSpec(spec sandbox.Spec, r runDir, layout rootLayout) *specs.Spec {
	return &specs.Spec{
		Version:  ociVersion,
		Root:     &specs.Root{Path: r.root()},
		Hostname: hostname(spec),
		Process:  process(spec, sandbox.Command{Argv: spec.Init, Env: spec.Env}),
		Mounts:   mounts(spec, r, layout),
		Linux: &specs.Linux{
			CgroupsPath: "/" + spec.ID,
			Namespaces:  namespaces(spec),
			UIDMappings: idMappings(spec),
			GIDMappings: idMappings(spec),
			Resources: &specs.LinuxResources{
				Memory: &specs.LinuxMemory{Limit: &spec.Limits.MemoryBytes},
				Pids:   &specs.LinuxPids{Limit: ptr(hostTasksBase + hostTasksPerProcess*spec.Limits.Processes)},
			},
		},
	}
}

func ptr[T any](v T) *T { return &v }

func hostname(spec sandbox.Spec) string {
	if spec.Hostname != "" {
		return spec.Hostname
	}
	return "sandbox"
}

func namespaces(spec sandbox.Spec) []specs.LinuxNamespace {
	ns := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
		{Type: specs.MountNamespace}, {Type: specs.NetworkNamespace, Path: spec.NetNS},
	}
	if spec.IDBase != 0 {
		ns = append(ns, specs.LinuxNamespace{Type: specs.UserNamespace})
	}
	return ns
}

func idMappings(spec sandbox.Spec) []specs.LinuxIDMapping {
	if spec.IDBase == 0 {
		return nil
	}
	return []specs.LinuxIDMapping{{ContainerID: 0, HostID: spec.IDBase, Size: idCount}}
}

// process is the OCI form of a command in a sandbox.
func process(spec sandbox.Spec, c sandbox.Command) *specs.Process {
	user := spec.User
	if c.User != nil {
		user = *c.User
	}
	dir := c.WorkDir
	if dir == "" {
		dir = spec.WorkDir
	}
	if dir == "" {
		dir = "/"
	}
	return &specs.Process{
		Terminal:        c.TTY,
		User:            specs.User{UID: user.UID, GID: user.GID},
		Args:            c.Argv,
		Env:             sandbox.WithHome(c.Env),
		Cwd:             dir,
		Capabilities:    capabilities(user),
		NoNewPrivileges: true,
		Rlimits: []specs.POSIXRlimit{
			{Type: "RLIMIT_NPROC", Soft: uint64(spec.Limits.Processes), Hard: uint64(spec.Limits.Processes)},
			{Type: "RLIMIT_NOFILE", Soft: maxFiles, Hard: maxFiles},
			{Type: "RLIMIT_CORE"},
		},
	}
}

func capabilities(u sandbox.User) *specs.LinuxCapabilities {
	if u.UID != 0 {
		return &specs.LinuxCapabilities{}
	}
	return &specs.LinuxCapabilities{Bounding: rootCaps, Effective: rootCaps, Permitted: rootCaps}
}

// mounts lists the kernel's file systems, the generated files, unless the spec
// mounts something in their place, and the spec's mounts.
func mounts(spec sandbox.Spec, r runDir, layout rootLayout) []specs.Mount {
	plain := []string{"nosuid", "noexec", "nodev"}
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: plain},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: append(slices.Clone(plain), "ro")},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
			Options: append(slices.Clone(plain), "mode=1777", fmt.Sprintf("size=%d", min(shmBytes, spec.Limits.DiskBytes)))},
	}
	if layout.emptyTmp {
		list = append(list, specs.Mount{Destination: "/tmp", Type: "tmpfs", Source: "tmp",
			Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", spec.Limits.DiskBytes)}})
	}
	for _, name := range etcFiles {
		target := "/etc/" + name
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == target }) {
			list = append(list, bind(filepath.Join(r.etc(), name), target, true))
		}
	}
	for _, m := range spec.Mounts {
		list = append(list, bind(m.Source, m.Target, m.ReadOnly))
	}
	return list
}

func bind(source, target string, readOnly bool) specs.Mount {
	access := "rw"
	if readOnly {
		access = "ro"
	}
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", "nosuid", "nodev", access}}
}

// writeBundle writes the OCI configuration and the files that are mounted at
// /etc.
func writeBundle(spec sandbox.Spec, r runDir, layout rootLayout) error {
	b, err := json.Marshal(ociSpec(spec, r, layout))
	if err != nil {
		return fmt.Errorf("write OCI configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.bundle(), "config.json"), b, 0o600); err != nil {
		return fmt.Errorf("write OCI configuration: %w", err)
	}
	for name, content := range etcContent(spec) {
		path := filepath.Join(r.etc(), name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
		if err := os.Chown(path, int(spec.IDBase), int(spec.IDBase)); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
	}
	return nil
}

// etcContent is the content of each of etcFiles.
func etcContent(spec sandbox.Spec) map[string]string {
	var resolv, hosts strings.Builder
	for _, a := range spec.DNS {
		fmt.Fprintf(&resolv, "nameserver %s\n", a)
	}
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 %s\n", hostname(spec))
	for _, name := range slices.Sorted(maps.Keys(spec.Hosts)) {
		fmt.Fprintf(&hosts, "%s %s\n", spec.Hosts[name], name)
	}
	return map[string]string{"resolv.conf": resolv.String(), "hosts": hosts.String(), "hostname": hostname(spec) + "\n"}
}
