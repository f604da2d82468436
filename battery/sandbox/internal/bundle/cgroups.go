package bundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CgroupRoot is where control groups are mounted.
const CgroupRoot = "/sys/fs/cgroup"

// Cgroups says which control groups the machine lets us use.
type Cgroups string

// The kinds of control groups.
const (
	CgroupsV1   Cgroups = "v1"
	CgroupsV2   Cgroups = "v2"
	CgroupsNone Cgroups = "none"
)

// v1Controllers are the version 1 hierarchies that the runtime writes to when
// they are mounted; the first two are those that our limits need.
var v1Controllers = []string{"memory", "pids", "cpu", "cpuacct", "cpuset", "devices", "freezer", "blkio", "systemd", "net_cls", "net_prio", "perf_event", "hugetlb"}

// removeTimeout bounds how long an emptied control group may stay busy.
const removeTimeout = 5 * time.Second

// DetectCgroups finds out by making and removing a group. A machine may hide
// them (inside "ip netns exec", in containers) or mount them read-only; then
// sandboxes run without, and their memory is not limited by the host.
func DetectCgroups(root string) Cgroups {
	name := fmt.Sprintf("wallproof-detect-%d", os.Getpid())
	var st unix.Statfs_t
	if unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return detectV2(root, name)
	}
	for i, c := range v1Controllers {
		dir := filepath.Join(root, c)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			if i < 2 {
				return CgroupsNone
			}
			continue
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return CgroupsNone
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return CgroupsNone
		}
	}
	return CgroupsV1
}

func detectV2(root, name string) Cgroups {
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return CgroupsNone
	}
	defer os.Remove(dir)
	for _, f := range []string{"memory.max", "pids.max"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			return CgroupsNone
		}
	}
	return CgroupsV2
}

// RemoveCgroups removes the sandbox's groups in every hierarchy. A group stays
// busy for a moment after its last process has died, so it is tried again for
// a bounded time.
func RemoveCgroups(root, id string) error {
	groups, err := filepath.Glob(filepath.Join(root, "*", id))
	if err != nil {
		return fmt.Errorf("look for control groups of %s: %w", id, err)
	}
	groups = append(groups, filepath.Join(root, id))
	deadline := time.Now().Add(removeTimeout)
	var errs []error
	for _, g := range groups {
		if err := removeGroup(g, deadline); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeGroup(dir string, deadline time.Time) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := unix.Rmdir(dir)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EBUSY) || time.Now().After(deadline):
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
		if err := removeSubgroups(dir, deadline); err != nil {
			return err
		}
		time.Sleep(wait)
	}
}

// removeSubgroups removes groups below: the runtime makes one on version 2.
func removeSubgroups(dir string, deadline time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // it went away meanwhile
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			if err := removeGroup(filepath.Join(dir, e.Name()), deadline); err != nil {
				return err
			}
		}
	}
	return nil
}
