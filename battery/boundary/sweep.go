package boundary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Sweep removes what a run that was killed has left: network namespaces, and
// links of the caller's own namespace, whose names begin with "wallproof-" and
// whose run (what follows, up to the next "-") is not alive. It returns the names
// of what it removed, also when there was an error with others. The owner's
// record of a dead run goes, too.
func Sweep(ctx context.Context, alive func(run string) bool) ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var removed []string
	var errs []error
	dead := make(map[string]bool)
	for _, e := range entries {
		run, ours := runOf(e.Name())
		if !ours || alive(run) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return removed, errors.Join(append(errs, err)...)
		}
		if err := sweepNamespace(e.Name()); err != nil {
			errs = append(errs, err)
			continue
		}
		dead[run] = true
		removed = append(removed, e.Name())
	}
	links, err := sweepLinks(alive)
	errs = append(errs, err, sweepRecords(alive, dead))
	return append(removed, links...), errors.Join(errs...)
}

// runOf is the run in the name of a namespace or link of ours.
func runOf(name string) (run string, ours bool) {
	rest, ours := strings.CutPrefix(name, prefix)
	run, _, _ = strings.Cut(rest, "-")
	return run, ours
}

func sweepNamespace(name string) error {
	fd, err := netns.GetFromName(name)
	if err != nil {
		return deleteName(name)
	}
	ns := &namespace{name: name, fd: fd}
	// A name that was made but never mounted is a plain file: no namespace to look
	// into, only a name to remove.
	if nl, err := netlink.NewHandleAt(fd, unix.NETLINK_ROUTE); err == nil {
		ns.nl = nl
	}
	return ns.remove()
}

func sweepLinks(alive func(run string) bool) ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var removed []string
	var errs []error
	for _, l := range links {
		name := l.Attrs().Name
		run, ours := runOf(name)
		if !ours || alive(run) {
			continue
		}
		if err := netlink.LinkDel(l); err != nil {
			errs = append(errs, fmt.Errorf("delete link %s: %w", name, err))
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

// sweepRecords removes the records of dead runs: those just swept, and those of
// which nothing but the record was left.
func sweepRecords(alive func(run string) bool, dead map[string]bool) error {
	entries, err := os.ReadDir(ownersDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list runs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if run := e.Name(); validRun(run) && (dead[run] || !alive(run)) {
			errs = append(errs, sweepRecord(run, alive))
		}
	}
	return errors.Join(errs...)
}

// sweepRecord removes one run's record. Under the lock it looks again: the run
// may just have been claimed, or be about to be (a folder without a record).
func sweepRecord(run string, alive func(run string) bool) error {
	unlock, err := lockDir(filepath.Join(ownersDir, run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	defer unlock()
	if _, err := os.Stat(filepath.Join(ownersDir, run, "owner")); err != nil || alive(run) {
		return nil
	}
	return disown(run)
}
