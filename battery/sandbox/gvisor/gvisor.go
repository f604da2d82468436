// Package gvisor is the sandbox driver on gVisor: an own kernel in user space
// for every sandbox, started through wallproof-runsc, which is gVisor's OCI
// runtime linked as our own binary.
package gvisor

import (
	"context"
	"errors"

	"github.com/wallproof/wallproof/battery/sandbox"
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
}

var _ sandbox.Driver = (*Driver)(nil)
var _ sandbox.Snapshotter = (*Driver)(nil)

// New returns a driver. Nothing is looked at before Describe or Start.
func New(o Options) *Driver {
	if o.StateDir == "" {
		o.StateDir = DefaultStateDir
	}
	return &Driver{opts: o}
}

var errUnfinished = errors.New("gvisor: not there yet")

// Describe implements sandbox.Driver.
func (d *Driver) Describe(ctx context.Context) (sandbox.Description, error) {
	return sandbox.Description{}, errUnfinished
}

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, errUnfinished
}

// Checkpoint implements sandbox.Snapshotter.
func (d *Driver) Checkpoint(ctx context.Context, sb sandbox.Sandbox, dir string, leave bool) error {
	return errUnfinished
}

// Restore implements sandbox.Snapshotter.
func (d *Driver) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Sandbox, error) {
	return nil, errUnfinished
}

// Sweep ends the sandboxes below stateDir ("" for DefaultStateDir) whose owner
// process is gone, and removes what they left: processes, mounts, control
// groups and run folders. A sandbox of a living owner, or one for which keep
// (which may be nil) says yes, is left alone. It returns the ids it removed.
func Sweep(ctx context.Context, stateDir string, keep func(id string) bool) ([]string, error) {
	return nil, errUnfinished
}
