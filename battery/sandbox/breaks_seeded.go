//go:build breaks

package sandbox

import "fmt"

// Breaks are the seeded breaks of a sandbox's isolation, as data: what a driver
// is to get wrong. They exist only in a binary built with the tag "breaks".
type Breaks struct {
	// Capabilities are added to every set of every process, e.g. "CAP_SYS_ADMIN".
	Capabilities []string `json:"capabilities,omitempty"`
	// NoSeccomp leaves out the system-call filter.
	NoSeccomp bool `json:"noSeccomp,omitempty"`
	// AllowCalls are system calls that the filter lets through after all.
	AllowCalls []string `json:"allowCalls,omitempty"`
	// NewPrivileges lets set-user-id programs raise privileges.
	NewPrivileges bool `json:"newPrivileges,omitempty"`
	// NoUserNamespace makes root inside the host's root.
	NoUserNamespace bool `json:"noUserNamespace,omitempty"`
	// Unmasked shows the paths that are masked: all of them, or those named.
	Unmasked []string `json:"unmasked,omitempty"`
	// Writable makes paths writable that are read-only: all of them, or those named.
	Writable []string `json:"writable,omitempty"`
	// Devices are nodes of the host that are bound into /dev, at their own paths.
	Devices []string `json:"devices,omitempty"`
	// MakeDevices lets root inside make device nodes of all kinds and open them.
	MakeDevices bool `json:"makeDevices,omitempty"`
	// HostNamespaces are namespaces that are the host's: pid, ipc, uts, cgroup. The
	// network's never is: no attack leaves its namespaces.
	HostNamespaces []string `json:"hostNamespaces,omitempty"`
	// Joined are namespaces of another sandbox that are joined, by their path.
	Joined map[string]string `json:"-"`
	// Descriptor is a file or folder of the host that every command inherits.
	Descriptor string `json:"-"`
	// Flags are added to the runtime's own, where the driver has such.
	Flags []string `json:"flags,omitempty"`
}

// SharesIDs reports whether ids inside are the host's although they need not be.
func (b Breaks) SharesIDs() bool { return b.NoUserNamespace }

// All stands for every path of a list.
const All = "all"

// Check says what is wrong.
func (b *Breaks) Check() error {
	for _, n := range b.HostNamespaces {
		switch n {
		case "pid", "ipc", "uts", "cgroup":
		default:
			return fmt.Errorf("the namespace %q is none of pid, ipc, uts, cgroup", n)
		}
	}
	return nil
}
