package runc

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	for _, f := range []*os.File{b.init, b.net} {
		if f != nil {
			f.Close()
		}
	}
	b.gone = true
	return nil
}

// Sweep ends the sandboxes of a profile below stateDir ("" for its default)
// whose owner process is gone, and removes what they left: processes, mounts,
// control groups and run folders. A sandbox of a living owner, or one for which
// keep (which may be nil) says yes, is left alone. It returns the ids it removed,
// also when it returns an error about others.
func Sweep(ctx context.Context, p Profile, stateDir string, keep func(id string) bool) ([]string, error) {
	removed, err := bundle.Sweep(ctx, New(p, Options{StateDir: stateDir}).opts.StateDir, keep, destroy)
	if err != nil {
		err = fmt.Errorf("%s: %w", p, err)
	}
	return removed, err
}

// destroy removes everything that belongs to a run folder, and the folder. It
// needs no runtime and no knowledge of how far the start came. It looks again
// afterwards: what a killed owner was about to start can appear meanwhile.
func destroy(d bundle.Dir) error {
	for {
		if err := bundle.KillAll(func() (bundle.Processes, error) { return processes(d) }); err != nil {
			return err
		}
		if err := d.Remove(); err != nil {
			return err
		}
		late, err := processes(d)
		if err != nil || len(late) == 0 {
			return err
		}
		late.Close()
	}
}

func processes(d bundle.Dir) (bundle.Processes, error) {
	return bundle.Find(func(pid int) bool { return belongs(pid, d) })
}

// belongs says whether a process is one of the sandbox's: the runtime's own, by
// the argument that names the state folder; a child of it, which is about to
// become a process inside; or one inside, by its control group or its root. A
// runtime's child that loses its parent before it is in the control group ends by
// itself, since it waits to be told what to do.
func belongs(pid int, d bundle.Dir) bool {
	return bundle.HasArgs(pid, d.RootArg()) || bundle.HasArgs(bundle.Parent(pid), d.RootArg()) || inCgroup(pid, d.ID()) || rootedIn(pid, d)
}

// inCgroup says whether a process is in a control group of the sandbox's name,
// or below it, in any hierarchy.
func inCgroup(pid int, id string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // hierarchy:controllers:path
		if len(parts) == 3 && (parts[2] == "/"+id || strings.HasPrefix(parts[2], "/"+id+"/")) {
			return true
		}
	}
	return false
}

// rootedIn says whether a process's root folder is the sandbox's.
func rootedIn(pid int, d bundle.Dir) bool {
	ours, err := os.Stat(d.Root())
	if err != nil {
		return false
	}
	root, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/root")
	return err == nil && os.SameFile(ours, root)
}
