package bundle

import (
	"path/filepath"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/wallproof/wallproof/battery/sandbox"
)

const (
	// OCIVersion is the version of the runtime specification that bundles claim.
	OCIVersion = "1.0.2"
	// IDCount is the number of ids inside, mapped from Spec.IDBase on.
	IDCount = 1 << 16
	// maxFiles is the limit of open files of a process.
	maxFiles = 4096
	// shmBytes bounds /dev/shm.
	shmBytes = 64 << 20
)

// RootCapabilities are what a process of user 0 gets in a hardened sandbox.
// They are what a package manager needs, without raw sockets, device nodes and
// chroot.
var RootCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE",
}

// Process is the OCI form of a command in a sandbox. A process of user 0 gets
// the given capabilities, every other none.
func Process(spec sandbox.Spec, c sandbox.Command, root specs.LinuxCapabilities) *specs.Process {
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
	caps := &root
	if user.UID != 0 {
		caps = &specs.LinuxCapabilities{}
	}
	return breakProcess(spec, &specs.Process{
		Terminal:        c.TTY,
		User:            specs.User{UID: user.UID, GID: user.GID},
		Args:            c.Argv,
		Env:             sandbox.WithHome(c.Env),
		Cwd:             dir,
		Capabilities:    caps,
		NoNewPrivileges: true,
		Rlimits: []specs.POSIXRlimit{
			{Type: "RLIMIT_NPROC", Soft: uint64(spec.Limits.Processes), Hard: uint64(spec.Limits.Processes)},
			{Type: "RLIMIT_NOFILE", Soft: maxFiles, Hard: maxFiles},
			{Type: "RLIMIT_CORE"},
		},
	})
}

// Namespaces are the namespaces that every sandbox has, the network's at its
// path where the spec gives one.
func Namespaces(spec sandbox.Spec) []specs.LinuxNamespace {
	return []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
		{Type: specs.MountNamespace}, {Type: specs.NetworkNamespace, Path: spec.NetNS},
	}
}

// IDMappings map IDCount ids from Spec.IDBase on; none where it is 0.
func IDMappings(spec sandbox.Spec) []specs.LinuxIDMapping {
	if spec.IDBase == 0 {
		return nil
	}
	return []specs.LinuxIDMapping{{ContainerID: 0, HostID: spec.IDBase, Size: IDCount}}
}

// ShmSize is the size of /dev/shm in bytes.
func ShmSize(spec sandbox.Spec) int64 { return min(shmBytes, spec.Limits.DiskBytes) }

// Binds are the generated files, unless the spec mounts something in their
// place, and the spec's own mounts.
func Binds(spec sandbox.Spec, d Dir) []specs.Mount {
	var list []specs.Mount
	for _, name := range etcFiles {
		target := "/etc/" + name
		if name == hostsFile && spec.OwnHosts {
			continue // it lies in the overlay
		}
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == target }) {
			list = append(list, Bind(filepath.Join(d.Etc(), name), target, true))
		}
	}
	for _, m := range spec.Mounts {
		list = append(list, Bind(m.Source, m.Target, m.ReadOnly))
	}
	return list
}

// Bind is the mount of a file or folder of the host.
func Bind(source, target string, readOnly bool) specs.Mount {
	access := "rw"
	if readOnly {
		access = "ro"
	}
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", "nosuid", "nodev", access}}
}
