package proxy

import (
	"context"
	"os"
)

// Launch says how Start starts the proxy's process.
type Launch struct {
	Argv   []string    // the hidden subcommand of our own binary that calls Main
	NetNS  string      // path of the uplink namespace; "" means the caller's
	UID    uint32      // unprivileged; 0 means procs.DefaultUID
	GID    uint32      //
	Files  []*os.File  // listeners, as Config.Listeners index them; Start does not close them
	Config Config      //
	Event  func(Event) // called for every event, one at a time; nil drops them
}

// Process is a running proxy.
type Process struct {
	Ready Ready
}

// Start starts the proxy and waits for its Ready line. When it returns an
// error nothing is left running.
func Start(ctx context.Context, l Launch) (*Process, error) { return nil, errBuilding }

// Reload sends an update and waits until it is in force or refused.
func (p *Process) Reload(ctx context.Context, u Update) error { return errBuilding }

// Stop ends the process: gracefully until ctx ends, then at once. It is
// idempotent and returns nil when the leases were revoked.
func (p *Process) Stop(ctx context.Context) error { return nil }

// Done is closed when the process has ended for whatever reason.
func (p *Process) Done() <-chan struct{} { return nil }
