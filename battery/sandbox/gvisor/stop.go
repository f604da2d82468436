package gvisor

import (
	"context"
	"fmt"

	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// Stop implements sandbox.Sandbox. It goes on when ctx is cancelled already:
// that is when it is most needed. Its own steps are bounded in time.
func (b *box) Stop(context.Context) error {
	b.ending.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil
	}
	if err := destroy(b.dir); err != nil {
		return fmt.Errorf("stop %s: %w", b.spec.ID, err)
	}
	b.gone = true
	return nil
}

// destroy removes everything that belongs to a run folder, and the folder. It
// needs no runtime and no knowledge of how far the start came: the processes
// are found by the argument that names their state folder, which every process
// of the runtime carries.
func destroy(d bundle.Dir) error {
	if err := bundle.KillAll(func() (bundle.Processes, error) { return processes(d) }); err != nil {
		return err
	}
	return d.Remove()
}

// processes are the runtime's processes that belong to a run folder.
func processes(d bundle.Dir) (bundle.Processes, error) {
	return bundle.Find(func(pid int) bool { return bundle.HasArgs(pid, d.RootArg()) })
}

// sandboxCommand is the runtime's internal subcommand that is the sandbox.
const sandboxCommand = "boot"

// running says whether the sandbox's own process is there. When in doubt it
// is.
func (b *box) running() bool {
	found, err := bundle.Find(func(pid int) bool { return bundle.HasArgs(pid, b.dir.RootArg(), sandboxCommand) })
	if err != nil {
		return true
	}
	defer found.Close()
	return len(found) > 0
}
