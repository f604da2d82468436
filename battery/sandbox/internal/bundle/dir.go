package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is the path of one sandbox's folder on the host.
type Dir string

// ID is the sandbox's id, which the folder is named after.
func (d Dir) ID() string { return filepath.Base(string(d)) }

// Bundle is the OCI bundle's folder.
func (d Dir) Bundle() string { return filepath.Join(string(d), "bundle") }

// Etc is the folder of the generated files.
func (d Dir) Etc() string { return filepath.Join(string(d), "etc") }

// Layer is the mount point of the overlay's tmpfs.
func (d Dir) Layer() string { return filepath.Join(string(d), "layer") }

// Root is the mount point of the overlay.
func (d Dir) Root() string { return filepath.Join(string(d), "root") }

// Mounts is a folder for further mount points.
func (d Dir) Mounts() string { return filepath.Join(string(d), "mounts") }

// State is the folder of the runtime's own state.
func (d Dir) State() string { return filepath.Join(string(d), "state") }

// Log is the file that the runtime's start writes its errors to.
func (d Dir) Log() string { return filepath.Join(string(d), "runtime.log") }

// RootArg is the runtime's argument that names State. Every invocation of the
// runtime for this sandbox carries it, so its processes are found by it.
func (d Dir) RootArg() string { return "--root=" + d.State() }

func (d Dir) owner() string { return filepath.Join(string(d), "owner.json") }

const (
	// NewPrefix begins the name of a folder that is still being made.
	NewPrefix = ".new-"
	// newAge is how old an unfinished folder must be before Sweep removes it.
	newAge = time.Minute
)

// Make makes a sandbox's folder below stateDir, with its owner record in it
// from the first moment on. It fails if there is one of that name.
func Make(stateDir, id string) (Dir, error) {
	// The sandbox's unprivileged processes pass through, but list nothing.
	if err := makePassable(stateDir); err != nil {
		return "", fmt.Errorf("make state folder: %w", err)
	}
	if err := passable(stateDir); err != nil {
		return "", err
	}
	me, err := OwnerOf(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("record the owner: %w", err)
	}
	record, err := json.Marshal(me)
	if err != nil {
		return "", fmt.Errorf("record the owner: %w", err)
	}
	tmp, err := os.MkdirTemp(stateDir, NewPrefix)
	if err != nil {
		return "", fmt.Errorf("make run folder: %w", err)
	}
	final := Dir(filepath.Join(stateDir, id))
	err = Dir(tmp).fill(record)
	if err == nil {
		err = os.Rename(tmp, string(final)) // fails on an existing folder, which is never empty
	}
	if err != nil {
		os.RemoveAll(tmp)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
			return "", fmt.Errorf("a sandbox %s exists already below %s; if nothing uses it, \"wallproof gc\" removes it", id, stateDir)
		}
		return "", fmt.Errorf("make run folder: %w", err)
	}
	return final, nil
}

// makePassable makes a folder and its parents where they are missing, whatever
// the umask.
func makePassable(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makePassable(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // made at the same time by another start
		}
		return err
	}
	return os.Chmod(dir, 0o711)
}

// passable says whether any user may pass through a folder and those above it,
// as the ids of a sandbox must to reach their root.
func passable(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		fi, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("state folder: %w", err)
		}
		if fi.Mode()&0o001 == 0 {
			return fmt.Errorf("sandboxes cannot reach their state folder through %s: \"chmod o+x\" it, or choose a state folder below /run", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (d Dir) fill(ownerRecord []byte) error {
	if err := os.WriteFile(d.owner(), ownerRecord, 0o600); err != nil {
		return err
	}
	for dir, mode := range map[string]fs.FileMode{
		d.Bundle(): 0o700, d.Etc(): 0o711, d.Layer(): 0o711, d.Root(): 0o711, d.Mounts(): 0o711, d.State(): 0o711, string(d): 0o711,
	} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
		if err := os.Chmod(dir, mode); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}

// Owner is the record of the process that started a sandbox. The start time
// and the boot's id make it unmistakable: process ids are used again.
type Owner struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // field 22 of /proc/PID/stat, clock ticks since boot
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

// OwnerOf describes a process.
func OwnerOf(pid int) (Owner, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Owner{}, err
	}
	fields := statFields(stat)
	const startField = 22 - 3
	if len(fields) <= startField {
		return Owner{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Owner{}, err
	}
	return Owner{PID: pid, Start: fields[startField], Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive says whether the recorded process still runs.
func (o Owner) Alive() bool {
	if o.PID <= 0 {
		return false
	}
	now, err := OwnerOf(o.PID)
	return err == nil && now == o
}

// readOwner returns the zero owner, which is not alive, when there is no
// readable record.
func (d Dir) readOwner() Owner {
	var o Owner
	b, err := os.ReadFile(d.owner())
	if err != nil || json.Unmarshal(b, &o) != nil {
		return Owner{}
	}
	return o
}
