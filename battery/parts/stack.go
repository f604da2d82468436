package parts

import (
	"slices"

	"github.com/wallproof/wallproof/probes/catalog"
)

// Facts that the battery records of the stack beside those that the probe
// measures inside. The value is "yes", or what was found instead.
const (
	FactIPv6       = "stack.ipv6"       // the boundary has IPv6
	FactSnapshots  = "stack.snapshots"  // the driver checkpoints and restores
	FactControlAPI = "stack.controlAPI" // the fabric has a control API with an address
	// FactRouting says how connections were led to the proxy: a policy.Routing.
	FactRouting = "stack.routing"

	// What a stack with somebody else's proxy may lack. Absent: it is there.
	FactResolver = "stack.resolver" // sandboxes have a resolver
	FactSOCKS    = "stack.socks"    // the proxy offers SOCKS5
	// FactAuthorities: each tenant's proxy has a certificate authority of its own.
	FactAuthorities = "stack.authorities"
)

// What the facts of the stack say where something is missing.
const (
	NoSnapshots  = "the driver takes no snapshots"
	NoControlAPI = "the fabric has no control API with an address"
)

// Kernel facts that the battery adds. FactKernel tells whether the sandbox has a
// kernel of its own; FactKernelVersion is what that kernel calls itself inside.
const (
	FactKernel        = "kernel"
	FactKernelVersion = "kernelVersion"
	// FactDriverKernel is what the driver says of the kernel.
	FactDriverKernel = "driver.kernel"

	KernelOwn         = "own"
	KernelShared      = "shared"
	KernelNotMeasured = "not measured"
)

// Facts lists the facts of isolation that every run records: those that the
// probe measures inside any sandbox (a test holds package probes/isolation to
// it), and those that the battery adds. One that is missing was taken out.
func Facts() []string {
	return slices.Clone(facts)
}

var facts = []string{
	"bpf", "capBnd", "capEff", "capPrm", "cgroup", "descriptor", "devices", FactDriverKernel, "gid", "ioUring", "ipv6", FactKernel, FactKernelVersion, "keyring",
	"lsm", "messageQueues", "mknod", "moduleLoad", "mount", "mounts", "netlink", "noNewPrivs", "onLink", "openByHandle", "packetSocket", "pageCache", "perfEvents", "pidfd",
	"ping", "pingSocket", "procMem", "processVM", "processes", "ptrace", "rawSocket", "seccomp", "securityModule", FactControlAPI, FactIPv6, FactRouting, FactSnapshots, "sysvShm", "uid", "uidMap",
	"userNamespace", "userfaultfd", "vsock",
}

// MayBeEmpty tells whether a fact says something by being empty: that there is
// no descriptor, no device, nothing mounted, no security module.
func MayBeEmpty(fact string) bool {
	return slices.Contains([]string{"descriptor", "devices", "mounts", "lsm", "cgroup", "uidMap"}, fact)
}

// UnmetByStack are the requirements that the stack does not meet, as the facts of
// isolation say. What no fact tells, every stack offers.
func UnmetByStack(isolation map[string]string) Unmet {
	out := Unmet{}
	for r, name := range map[catalog.Requirement]string{
		catalog.NeedsIPv6: FactIPv6, catalog.NeedsSnapshot: FactSnapshots, catalog.NeedsControlAPI: FactControlAPI,
	} {
		if isolation[name] != "yes" {
			out[r] = isolation[name]
		}
	}
	for r, name := range map[catalog.Requirement]string{catalog.NeedsResolver: FactResolver, catalog.NeedsSocks: FactSOCKS, catalog.NeedsAuthorities: FactAuthorities} {
		if fact, there := isolation[name]; there && fact != "yes" {
			out[r] = fact
		}
	}
	if uid := isolation["uid"]; uid != "0" {
		out[catalog.NeedsRoot] = "processes inside run as uid " + uid
	}
	if kernel := isolation[FactKernel]; kernel != KernelShared {
		out[catalog.NeedsSharedKernel] = FactKernel + ": " + kernel
	}
	for _, r := range measured {
		if name := r.Fact(); isolation[name] != "yes" {
			out[r] = name + ": " + isolation[name]
		}
	}
	return out
}

// measured are the requirements that a fact measured inside tells.
var measured = []catalog.Requirement{catalog.NeedsRawSocket, catalog.NeedsPing, catalog.NeedsPacketSocket, catalog.NeedsProcMem,
	catalog.NeedsIoUring, catalog.NeedsUserNS, catalog.NeedsQueues, catalog.NeedsVsock, catalog.NeedsKeyring,
	catalog.NeedsPtrace, catalog.NeedsProcessVM, catalog.NeedsPidfd, catalog.NeedsOnLink, catalog.NeedsPageCache, catalog.NeedsSecurityModule}

// Substitutions lists what stands in for the real thing in every run of the
// battery. An entry 0 that leaves one out hides it.
func Substitutions() []string {
	return []string{
		"the internet: a network namespace that answers on every address",
		"the upstream certificate authorities: one of the world's own",
		"the upstream resolver: the world's own",
		"every secret that the policy names: a canary",
	}
}
