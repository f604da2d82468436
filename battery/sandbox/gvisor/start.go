package gvisor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// box is one running sandbox.
type box struct {
	host host
	dir  bundle.Dir
	spec sandbox.Spec

	ending atomic.Bool // set before the sandbox is ended on purpose
	mu     sync.Mutex  // held while it is taken down
	gone   bool
}

// Start implements sandbox.Driver. Its cost is two mounts and one invocation
// of the runtime.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	return d.launch(ctx, spec, "run", "--detach")
}

// launch makes a sandbox by the runtime's subcommand run or restore.
func (d *Driver) launch(ctx context.Context, spec sandbox.Spec, subcommand ...string) (sandbox.Sandbox, error) {
	h, err := d.host()
	if err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.ID, err)
	}
	spec.Limits = spec.Limits.WithDefaults()
	dir, err := bundle.Make(d.opts.StateDir, spec.ID)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.ID, err)
	}
	b := &box{host: h, dir: dir, spec: spec}
	if err := b.launch(ctx, subcommand); err != nil {
		if undo := b.Stop(ctx); undo != nil {
			return nil, fmt.Errorf("start %s: %w (and cleaning up failed: %w)", spec.ID, err, undo)
		}
		return nil, fmt.Errorf("start %s: %w", spec.ID, err)
	}
	return b, nil
}

func (b *box) launch(ctx context.Context, subcommand []string) error {
	layout, err := b.dir.MountRoot(bundle.Root{Image: b.spec.Rootfs, Base: b.spec.IDBase, Bytes: layerBytes, Inodes: layerInodes,
		Flags: unix.MS_NOSUID | unix.MS_NODEV, Mounts: b.spec.Mounts, Hosts: bundle.OwnHosts(b.spec)})
	if err != nil {
		return err
	}
	if err := writeBundle(b.spec, b.dir, layout); err != nil {
		return err
	}
	args := append([]string{b.dir.RootArg()}, runFlags(b.spec, b.host.cgroups)...)
	args = append(args, subcommand...)
	args = append(args, "--bundle="+b.dir.Bundle(), b.spec.ID)
	return b.host.runtime.Run(ctx, bundle.RunOptions{Log: b.dir.Log()}, args...)
}

// ID implements sandbox.Sandbox.
func (b *box) ID() string { return b.spec.ID }
