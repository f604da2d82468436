//go:build breaks

package bundle

import (
	"os"
	"path/filepath"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

func breakProcess(spec sandbox.Spec, p *specs.Process) *specs.Process {
	b := spec.Breaks
	if b.MakeDevices {
		b.Capabilities = append(slices.Clone(b.Capabilities), "CAP_MKNOD")
	}
	if len(b.Capabilities) > 0 {
		caps := *p.Capabilities
		for _, set := range []*[]string{&caps.Bounding, &caps.Effective, &caps.Permitted, &caps.Inheritable, &caps.Ambient} {
			*set = append(slices.Clone(*set), b.Capabilities...)
		}
		p.Capabilities = &caps
	}
	if b.NewPrivileges {
		p.NoNewPrivileges = false
	}
	return p
}

// BreakSpec applies seeded breaks to a sandbox's configuration.
func BreakSpec(spec sandbox.Spec, s *specs.Spec) *specs.Spec {
	b := spec.Breaks
	if b.NoSeccomp {
		s.Linux.Seccomp = nil
	}
	if s.Linux.Seccomp != nil && len(b.AllowCalls) > 0 {
		s.Linux.Seccomp = allowCalls(*s.Linux.Seccomp, b.AllowCalls)
	}
	s.Linux.MaskedPaths = without(s.Linux.MaskedPaths, b.Unmasked)
	s.Linux.ReadonlyPaths = without(s.Linux.ReadonlyPaths, b.Writable)
	for i, m := range s.Mounts {
		if slices.Contains(b.Writable, m.Destination) || slices.Contains(b.Writable, sandbox.All) && m.Destination == "/sys" {
			s.Mounts[i].Options = slices.DeleteFunc(slices.Clone(m.Options), func(o string) bool { return o == "ro" })
		}
	}
	if b.MakeDevices && s.Linux.Resources != nil {
		s.Linux.Resources.Devices = append(s.Linux.Resources.Devices, specs.LinuxDeviceCgroup{Allow: true, Access: "rwm"})
	}
	for _, d := range b.Devices {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: filepath.Join("/dev", filepath.Base(d)), Type: "bind", Source: d, Options: []string{"bind", "rw"}})
		if s.Linux.Resources != nil {
			s.Linux.Resources.Devices = append(s.Linux.Resources.Devices, specs.LinuxDeviceCgroup{Allow: true, Access: "rwm"})
		}
	}
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type != specs.NetworkNamespace && slices.Contains(b.HostNamespaces, string(n.Type))
	})
	hostsOwn(b.HostNamespaces, s)
	for i, n := range s.Linux.Namespaces {
		if path := b.Joined[string(n.Type)]; path != "" {
			s.Linux.Namespaces[i].Path = path
		}
	}
	return s
}

// hostsOwn has a sandbox that is in the host's namespaces show what they hold: the
// kernel mounts the file systems of a namespace only for whoever owns it, so that the
// host's are bound; and the host's name is not the sandbox's to set.
func hostsOwn(shared []string, s *specs.Spec) {
	if slices.Contains(shared, "uts") {
		s.Hostname, s.Domainname = "", ""
	}
	if !slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.UserNamespace }) {
		return
	}
	for ns, dir := range map[string]string{"pid": "/proc", "ipc": "/dev/mqueue"} {
		if !slices.Contains(shared, ns) {
			continue
		}
		s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool {
			_, err := os.Lstat(m.Destination)
			return m.Destination == dir && (err != nil || ns == "ipc" && !isMounted(dir))
		})
		for i, m := range s.Mounts {
			if m.Destination == dir {
				s.Mounts[i] = specs.Mount{Destination: dir, Type: "bind", Source: dir, Options: append(slices.Clone(m.Options), "rbind")}
			}
		}
	}
}

// isMounted reports whether a file system of its own is mounted on a folder.
func isMounted(dir string) bool {
	var in, above unix.Stat_t
	return unix.Stat(dir, &in) == nil && unix.Stat(filepath.Dir(dir), &above) == nil && in.Dev != above.Dev
}

// allowCalls puts a rule for the calls in front of all others.
func allowCalls(s specs.LinuxSeccomp, calls []string) *specs.LinuxSeccomp {
	var rules []specs.LinuxSyscall
	for _, r := range s.Syscalls {
		r.Names = without(r.Names, calls)
		if len(r.Names) > 0 {
			rules = append(rules, r)
		}
	}
	s.Syscalls = append([]specs.LinuxSyscall{{Names: calls, Action: specs.ActAllow}}, rules...)
	return &s
}

func without(list, drop []string) []string {
	if slices.Contains(drop, sandbox.All) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(drop, s) })
}

// BrokenFlags are flags of the runtime that seeded breaks add. A later flag wins.
func BrokenFlags(spec sandbox.Spec) []string { return spec.Breaks.Flags }

// LeakedFD is the descriptor at which a command has what it inherits, where the
// runtime lets it be chosen.
const LeakedFD = 9

// LeakedFiles are opened files that every command inherits in a seeded break.
func LeakedFiles(spec sandbox.Spec) []*os.File {
	if spec.Breaks.Descriptor == "" {
		return nil
	}
	f, err := os.Open(spec.Breaks.Descriptor)
	if err != nil {
		return nil // a break that does not fire is missed
	}
	return []*os.File{f}
}
