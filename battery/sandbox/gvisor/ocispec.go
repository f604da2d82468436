package gvisor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

const (
	platform = "systrap"
	// hostTasksPerProcess is how many threads on the host a process inside may
	// need: its own, the one that serves its system calls, and slack.
	hostTasksPerProcess = 3
	hostTasksBase       = 256
	// layerBytes and layerInodes bound the mount points above the image; what the
	// sandbox writes goes to an overlay of gVisor's own.
	layerBytes  = 8 << 20
	layerInodes = 8 << 10
)

// runFlags are the runtime's global flags that decide how a sandbox is
// isolated, written out even where they are its defaults.
func runFlags(spec sandbox.Spec, cg bundle.Cgroups) []string {
	network := "sandbox" // gVisor's own network stack
	if spec.NetNS == "" {
		network = "none" // loopback only
	}
	return append([]string{
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
		fmt.Sprintf("--ignore-cgroups=%t", cg == bundle.CgroupsNone),
	}, bundle.BrokenFlags(spec)...)
}

// ociSpec is the OCI configuration of a sandbox; spec's limits are complete.
func ociSpec(spec sandbox.Spec, d bundle.Dir, layout bundle.RootLayout) *specs.Spec {
	return bundle.BreakSpec(spec, &specs.Spec{
		Version:  bundle.OCIVersion,
		Root:     &specs.Root{Path: d.Root()},
		Hostname: bundle.Hostname(spec),
		Process:  process(spec, sandbox.Command{Argv: spec.Init, Env: spec.Env}),
		Mounts:   mounts(spec, d, layout),
		Linux: &specs.Linux{
			CgroupsPath: "/" + spec.ID,
			Namespaces:  namespaces(spec),
			UIDMappings: bundle.IDMappings(spec),
			GIDMappings: bundle.IDMappings(spec),
			Resources: &specs.LinuxResources{
				Memory: &specs.LinuxMemory{Limit: &spec.Limits.MemoryBytes},
				Pids:   &specs.LinuxPids{Limit: ptr(hostTasksBase + hostTasksPerProcess*spec.Limits.Processes)},
			},
		},
	})
}

func ptr[T any](v T) *T { return &v }

func namespaces(spec sandbox.Spec) []specs.LinuxNamespace {
	ns := bundle.Namespaces(spec)
	if spec.IDBase != 0 {
		ns = append(ns, specs.LinuxNamespace{Type: specs.UserNamespace})
	}
	return ns
}

// process is the OCI form of a command in a sandbox.
func process(spec sandbox.Spec, c sandbox.Command) *specs.Process {
	root := bundle.RootCapabilities
	return bundle.Process(spec, c, specs.LinuxCapabilities{Bounding: root, Effective: root, Permitted: root})
}

// mounts lists the kernel's file systems, the generated files and the spec's
// mounts.
func mounts(spec sandbox.Spec, d bundle.Dir, layout bundle.RootLayout) []specs.Mount {
	plain := []string{"nosuid", "noexec", "nodev"}
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: plain},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: append(slices.Clone(plain), "ro")},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
			Options: append(slices.Clone(plain), "mode=1777", fmt.Sprintf("size=%d", bundle.ShmSize(spec)))},
	}
	if layout.EmptyTmp { // it becomes a tmpfs of limited size
		list = append(list, specs.Mount{Destination: "/tmp", Type: "tmpfs", Source: "tmp",
			Options: []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", spec.Limits.DiskBytes)}})
	}
	return append(list, bundle.Binds(spec, d)...)
}

// writeBundle writes the OCI configuration and the files that are mounted at
// /etc.
func writeBundle(spec sandbox.Spec, d bundle.Dir, layout bundle.RootLayout) error {
	b, err := json.Marshal(ociSpec(spec, d, layout))
	if err != nil {
		return fmt.Errorf("write OCI configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(d.Bundle(), "config.json"), b, 0o600); err != nil {
		return fmt.Errorf("write OCI configuration: %w", err)
	}
	return d.WriteEtc(spec, spec.IDBase)
}
