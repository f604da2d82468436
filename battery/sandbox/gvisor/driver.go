// Package gvisor is the sandbox driver on gVisor: an own kernel in user space
// for every sandbox, started through wallproof-runsc, which is gVisor's OCI
// runtime linked as our own binary.
//
// A sandbox's folder on the host is as battery/sandbox/internal/bundle has it;
// layer/ and root/ hold the image with the mount points above it, state/ the
// runtime's own state. Beside it there are the runtime's two processes (sandbox
// and gofer), the two mounts, and a control group of the same name. Stop and
// Sweep remove all of it. What the sandbox writes goes to an overlay in its own
// memory and never to the host.
package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// Name is the driver's name.
const Name = "gvisor"

// DefaultStateDir is where the driver keeps what it needs on the host while
// sandboxes run: one folder a sandbox.
const DefaultStateDir = "/run/wallproof/gvisor"

// RuntimeEnv names the environment variable that overrides where the runtime
// program is.
const RuntimeEnv = "WALLPROOF_RUNSC"

// Options configure a Driver. The zero value is usable.
type Options struct {
	// Runtime is the path of wallproof-runsc; "" means $WALLPROOF_RUNSC, else the
	// file of that name beside the running executable.
	Runtime string
	// StateDir is the folder for sandboxes' run folders; "" means DefaultStateDir.
	StateDir string
}

// Driver starts gVisor sandboxes. It is safe for use by several goroutines.
type Driver struct {
	opts Options
	host func() (host, error) // what this machine offers, looked at once
}

var (
	_ sandbox.Driver      = (*Driver)(nil)
	_ sandbox.Snapshotter = (*Driver)(nil)
)

// host is what the driver found on the machine.
type host struct {
	runtime bundle.Program
	cgroups bundle.Cgroups
}

// New returns a driver. Nothing is looked at before Describe or Start.
func New(o Options) *Driver {
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir
	}
	if abs, err := filepath.Abs(o.StateDir); err == nil {
		o.StateDir = abs // the runtime is started in another folder
	}
	return &Driver{opts: o, host: sync.OnceValues(func() (host, error) { return lookAround(o.Runtime) })}
}

func lookAround(path string) (host, error) {
	if os.Geteuid() != 0 {
		return host{}, fmt.Errorf("the gvisor driver needs root (it makes namespaces, mounts and control groups): run it with sudo")
	}
	p, err := findRuntime(path)
	if err != nil {
		return host{}, err
	}
	return host{runtime: p, cgroups: bundle.DetectCgroups(bundle.CgroupRoot)}, nil
}

// Describe implements sandbox.Driver.
//
// Facts: kernel ("own": the sandbox has a kernel of its own), platform (how
// gVisor intercepts system calls), rootless, cgroups ("v1", "v2" or "none"),
// memoryLimit ("cgroup" or "none", which follows), overlay, userNamespace,
// directfs, runtimeDigest ("sha256:…" of the runtime program).
func (d *Driver) Describe(ctx context.Context) (sandbox.Description, error) {
	h, err := d.host()
	if err != nil {
		return sandbox.Description{}, err
	}
	digest, err := h.runtime.Digest()
	if err != nil {
		return sandbox.Description{}, fmt.Errorf("gvisor: %w", err)
	}
	memory := "cgroup"
	if h.cgroups == bundle.CgroupsNone {
		memory = "none"
	}
	config, err := configDigest(h)
	if err != nil {
		return sandbox.Description{}, err
	}
	return sandbox.Description{
		Name:         Name,
		Version:      version(h.runtime),
		ConfigDigest: config,
		Facts: map[string]string{
			"kernel":        "own",
			"platform":      platform,
			"rootless":      strconv.FormatBool(false),
			"cgroups":       string(h.cgroups),
			"memoryLimit":   memory,
			"overlay":       "memory",
			"userNamespace": "yes",
			"directfs":      strconv.FormatBool(true),
			"runtimeDigest": digest,
		},
		NetworkModes: []string{"public", "no-network", "denylist", "allowlist"},
		Snapshots:    true,
	}, ctx.Err()
}

// configDigest is the SHA-256 over the runtime's flags and the OCI
// configuration of an example sandbox, so that it changes when, and only when,
// the way in which sandboxes are isolated does.
func configDigest(h host) (string, error) {
	example := sandbox.Spec{ID: "wallproof-example", Rootfs: "/rootfs", IDBase: 1, NetNS: "/netns",
		User: sandbox.User{UID: 1, GID: 1}, Init: []string{"/init"}, Limits: sandbox.Limits{}.WithDefaults()}
	root := example
	root.User = sandbox.User{}
	in := struct {
		Flags      []string
		User, Root any
	}{runFlags(example, h.cgroups), ociSpec(example, "/run", bundle.RootLayout{}), ociSpec(root, "/run", bundle.RootLayout{}).Process}
	b, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("gvisor: configuration digest: %w", err)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
