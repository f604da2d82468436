// Package drivers is the one explicit list of sandbox drivers. Nothing
// registers itself; a driver that is not named here does not exist.
package drivers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/gvisor"
	"github.com/wallproof/wallproof/battery/sandbox/runc"
)

// Default is the driver that is used when none is asked for.
const Default = gvisor.Name

// DefaultStateDir is where drivers keep what they need on the host while
// sandboxes run, each in a folder of its name.
const DefaultStateDir = "/run/wallproof"

// Options is what the command line can say to any driver.
type Options struct {
	StateDir string // "" means DefaultStateDir
	Runtime  string // path of the driver's runtime program, "" to look for it
}

// Names lists the drivers in the order in which they are shown.
func Names() []string {
	return []string{gvisor.Name, runc.Name, runc.BareName}
}

// New makes the driver of that name. The error for an unknown name lists the
// known ones.
func New(name string, o Options) (sandbox.Driver, error) {
	dir := stateDir(o.StateDir, name)
	switch name {
	case gvisor.Name:
		return gvisor.New(gvisor.Options{StateDir: dir, Runtime: o.Runtime}), nil
	case runc.Name, runc.BareName:
		return runc.New(runc.Profile(name), runc.Options{StateDir: dir, Runtime: o.Runtime}), nil
	}
	return nil, fmt.Errorf("there is no sandbox driver %q; there are: %s", name, strings.Join(Names(), ", "))
}

// Sweep removes what sandboxes of any driver left below dir ("" for
// DefaultStateDir) when their owner was killed; see gvisor.Sweep and runc.Sweep.
// It returns the ids of what it removed, also when it returns an error about
// others.
func Sweep(ctx context.Context, dir string, keep func(id string) bool) ([]string, error) {
	removed, err := gvisor.Sweep(ctx, stateDir(dir, gvisor.Name), keep)
	errs := []error{err}
	for _, p := range []runc.Profile{runc.Hardened, runc.Bare} {
		more, err := runc.Sweep(ctx, p, stateDir(dir, string(p)), keep)
		removed, errs = append(removed, more...), append(errs, err)
	}
	return removed, errors.Join(errs...)
}

func stateDir(dir, driver string) string {
	if dir == "" {
		dir = DefaultStateDir
	}
	return filepath.Join(dir, driver)
}
