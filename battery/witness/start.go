package witness

import (
	"context"
	"errors"
	"os"

	"github.com/wallproof/wallproof/attest/manifest"
)

var errBuilding = errors.New("witness: not complete yet")

// Launch says how Start starts a witness's process, of either role.
type Launch struct {
	Argv   []string    // the hidden subcommand of our own binary that calls Main
	NetNS  string      // path of the namespace that it lives in
	UID    uint32      // unprivileged; 0 means DefaultUID
	GID    uint32      //
	Files  []*os.File  // sockets, as Config.Sockets index them; Start does not close them
	Config Config      //
	Event  func(Event) // called for every event, one at a time; nil drops them
}

// DefaultUID is the user (and group) that a witness runs as.
const DefaultUID = 65532

// Process is a running witness.
type Process struct {
	CAPEM string // certificate of the world's authority
}

// Start starts a witness and waits until it listens. When it returns an error
// nothing is left running.
func Start(ctx context.Context, l Launch) (*Process, error) { return nil, errBuilding }

// Sync waits until everything that had arrived when it was called is in
// Observations.
func (p *Process) Sync(ctx context.Context) error { return errBuilding }

// Observations returns what has been seen so far, in order of arrival.
func (p *Process) Observations() []manifest.Observation { return nil }

// Pushes returns the ref updates that the forge was asked for so far.
func (p *Process) Pushes() []Push { return nil }

// Leases returns the installation tokens that the forge issued so far, revoked
// ones marked.
func (p *Process) Leases() []Lease { return nil }

// Stop ends the process: gracefully until ctx ends, then at once. It is
// idempotent. Afterwards Observations is complete.
func (p *Process) Stop(ctx context.Context) error { return errBuilding }

// Done is closed when the process has ended for whatever reason.
func (p *Process) Done() <-chan struct{} { return nil }
