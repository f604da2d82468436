// Package runc is the sandbox driver on runc, the runtime beneath Docker and
// most of Kubernetes: the host's own kernel, divided by namespaces, control
// groups and a system call filter.
//
// It has two profiles, which are two drivers to everybody else. Hardened is what
// can be had of runc with care. Bare is what one gets with none, and is there so
// that the battery is calibrated: measured on one fabric only, it would not be
// known whether a technique that finds nothing could have found anything.
//
// A sandbox's folder on the host is as battery/sandbox/internal/bundle has it;
// layer/ is a tmpfs that takes what the sandbox writes, root/ the overlay of it
// over the image, state/ runc's own state. mounts/ holds, where they are needed,
// mounts with changed ids (see bundle.MapMount) and the /sys of the sandbox's
// network namespace. Stop and Sweep remove all of it, with the sandbox's
// processes and control groups.
package runc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// Name and BareName are the names of the profiles as drivers.
const (
	Name     = string(Hardened)
	BareName = string(Bare)
)

// DefaultStateRoot is the folder below which each profile keeps what it needs on
// the host while sandboxes run, in a folder of its name.
const DefaultStateRoot = "/run/wallproof"

// runtimeName is the program that is looked for.
const runtimeName = "runc"

// Options configure a Driver. The zero value is usable.
type Options struct {
	// Runtime is the path of runc; "" means to look for it along PATH.
	Runtime string
	// StateDir is the folder for sandboxes' run folders; "" means the profile's
	// below DefaultStateRoot.
	StateDir string
}

// Driver starts sandboxes under runc. It is safe for use by several goroutines.
type Driver struct {
	profile Profile
	opts    Options
	host    func() (host, error) // what this machine offers, looked at once
}

var _ sandbox.Driver = (*Driver)(nil)

// host is what the driver found on the machine.
type host struct {
	runtime  bundle.Program
	version  string
	cgroups  bundle.Cgroups
	swap     bool   // control groups can limit it
	apparmor string // the profile to run under, "" without AppArmor
}

// New returns a driver. Nothing is looked at before Describe or Start.
func New(p Profile, o Options) *Driver {
	if o.StateDir == "" {
		o.StateDir = filepath.Join(DefaultStateRoot, string(p))
	}
	if abs, err := filepath.Abs(o.StateDir); err == nil {
		o.StateDir = abs // the runtime is started in another folder
	}
	return &Driver{profile: p, opts: o, host: sync.OnceValues(func() (host, error) { return lookAround(o.Runtime) })}
}

func lookAround(path string) (host, error) {
	if os.Geteuid() != 0 {
		return host{}, errors.New("the runc driver needs root (it makes namespaces, mounts and control groups): run it with sudo")
	}
	p, err := findRuntime(path)
	if err != nil {
		return host{}, err
	}
	v, err := version(p)
	if err != nil {
		return host{}, err
	}
	// The runtime does not start without them, and nothing else would keep a fork
	// bomb of the bare profile's root from being the host's.
	cg := bundle.DetectCgroups(bundle.CgroupRoot)
	if cg == bundle.CgroupsNone {
		return host{}, fmt.Errorf("the runc driver needs control groups for memory and processes that it can write to, and there are none at %s: mount them (\"ip netns exec\" and containers hide them), or use gvisor", bundle.CgroupRoot)
	}
	return host{runtime: p, version: v, cgroups: cg, swap: limitsSwap(cg, bundle.CgroupRoot), apparmor: findAppArmor()}, nil
}

// findRuntime returns the runtime program: path if given, else the first on
// PATH.
func findRuntime(path string) (bundle.Program, error) {
	if path == "" {
		found, err := exec.LookPath(runtimeName)
		if err != nil {
			return "", fmt.Errorf("runc: no runtime: %w; install it, on Debian with \"apt-get install runc\", or give its path", err)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("runc: runtime's path: %w", err)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("runc: no runtime: %w", err)
	case !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0:
		return "", fmt.Errorf("runc: %s is not an executable file", path)
	}
	return bundle.Program(path), nil
}

// version asks the runtime. Its first line is "runc version X".
func version(p bundle.Program) (string, error) {
	out, err := p.Command("--version").Output()
	if err != nil {
		return "", fmt.Errorf("runc: ask %s for its version: %w", p, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	v, ok := strings.CutPrefix(line, runtimeName+" version ")
	if !ok || v == "" {
		return "", fmt.Errorf("runc: %s says of itself %q: it is not runc", p, line)
	}
	return v, nil
}

// limitsSwap says whether control groups count swap, so that it does not double
// what a sandbox may take.
func limitsSwap(cg bundle.Cgroups, root string) bool {
	if cg != bundle.CgroupsV1 {
		return cg == bundle.CgroupsV2
	}
	_, err := os.Stat(filepath.Join(root, "memory", "memory.memsw.limit_in_bytes"))
	return err == nil
}

// appArmorProfile is the profile that Docker loads for its containers.
const appArmorProfile = "docker-default"

// findAppArmor returns the profile to use, where AppArmor is on and has it.
func findAppArmor() string {
	b, err := os.ReadFile("/sys/kernel/security/apparmor/profiles")
	if err != nil {
		return ""
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if name, _, _ := strings.Cut(s.Text(), " "); name == appArmorProfile {
			return name
		}
	}
	return ""
}

// Describe implements sandbox.Driver.
//
// Facts: kernel ("shared": it is the host's), platform, profile, rootless,
// cgroups ("v1" or "v2"), memoryLimit, overlay, userNamespace, seccomp ("filter" or "none"), lsm (the
// AppArmor profile or "none"), maskedPaths, runtimeDigest ("sha256:…" of the
// runtime program).
func (d *Driver) Describe(ctx context.Context) (sandbox.Description, error) {
	h, err := d.host()
	if err != nil {
		return sandbox.Description{}, err
	}
	digest, err := h.runtime.Digest()
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("runc: %w", err)
	}
	config, err := configDigest(d.profile, h)
	if err != nil {
		return sandbox.Description{}, err
	}
	facts := d.profile.facts(h)
	facts["runtimeDigest"] = digest
	return sandbox.Description{
		Name: string(d.profile), Version: h.version, ConfigDigest: config, Facts: facts,
		NetworkModes: []string{"public", "no-network", "denylist", "allowlist"},
	}, ctx.Err()
}

func (p Profile) facts(h host) map[string]string {
	facts := map[string]string{
		"kernel": "shared", "platform": "namespaces", "profile": "hardened", "rootless": strconv.FormatBool(false), "cgroups": string(h.cgroups), "memoryLimit": "cgroup",
		"overlay": "tmpfs", "userNamespace": "yes", "seccomp": "filter", "lsm": "none", "maskedPaths": "yes",
	}
	if p == Bare {
		facts["profile"], facts["userNamespace"], facts["seccomp"], facts["maskedPaths"] = "bare", "no", "none", "no"
	} else if h.apparmor != "" {
		facts["lsm"] = "apparmor " + h.apparmor
	}
	return facts
}

// configDigest is the SHA-256 over the OCI configuration of an example sandbox,
// so that it changes when, and only when, the way in which sandboxes are isolated
// does.
func configDigest(p Profile, h host) (string, error) {
	example := sandbox.Spec{ID: "wallproof-example", Rootfs: "/rootfs", IDBase: 1, NetNS: "/netns",
		User: sandbox.User{UID: 1, GID: 1}, Init: []string{"/init"}, Limits: sandbox.Limits{}.WithDefaults()}
	root := example
	root.User = sandbox.User{}
	b, err := json.Marshal([]any{p.ociSpec(example, "/run", h), p.ociSpec(root, "/run", h).Process})
	if err != nil {
		return "", fmt.Errorf("runc: configuration digest: %w", err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
