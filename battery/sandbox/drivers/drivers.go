// Package drivers is the one explicit list of sandbox drivers. Nothing
// registers itself; a driver that is not named here does not exist.
package drivers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/gvisor"
)

// Default is the driver that is used when none is asked for.
const Default = gvisor.Name

// Options is what the command line can say to any driver.
type Options struct {
	StateDir string // folder for what drivers keep on the host, "" for /run/wallproof
	Runtime  string // path of the runtime program, "" to look for it
}

// Names lists the drivers in the order in which they are shown.
func Names() []string {
	return []string{gvisor.Name}
}

// New makes the driver of that name. The error for an unknown name lists the
// known ones.
func New(name string, o Options) (sandbox.Driver, error) {
	switch name {
	case gvisor.Name:
		return gvisor.New(gvisor.Options{StateDir: o.StateDir, Runtime: o.Runtime}), nil
	}
	return nil, fmt.Errorf("no sandbox driver is called %q; there are: %s", name, strings.Join(slices.Sorted(slices.Values(Names())), ", "))
}
