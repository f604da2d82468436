package gvisor

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

// runDir is the path of one sandbox's folder on the host.
type runDir string

func (r runDir) owner() string   { return filepath.Join(string(r), "owner.json") }
func (r runDir) bundle() string  { return filepath.Join(string(r), "bundle") }
func (r runDir) etc() string     { return filepath.Join(string(r), "etc") }
func (r runDir) layer() string   { return filepath.Join(string(r), "layer") }
func (r runDir) root() string    { return filepath.Join(string(r), "root") }
func (r runDir) runsc() string   { return filepath.Join(string(r), "runsc") }
func (r runDir) log() string     { return filepath.Join(string(r), "runtime.log") }
func (r runDir) rootArg() string { return "--root=" + r.runsc() }

// newPrefix begins the name of a folder that is still being made.
const newPrefix = ".new-"

// newAge is how old an unfinished folder must be before Sweep takes it away.
const newAge = time.Minute

// owner is the record of the process that started a sandbox. The start time
// and the boot's id make it unmistakable: process ids are used again.
type owner struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // field 22 of /proc/PID/stat, clock ticks since boot
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

// makeRunDir makes a sandbox's folder, with its owner record in it from the
// first moment on. It fails if there is one of that name.
func makeRunDir(stateDir, id string) (runDir, error) {
	// The runtime's unprivileged processes pass through, but list nothing.
	if err := makePassable(stateDir); err != nil {
		return "", fmt.Errorf("gvisor: make state folder: %w", err)
	}
	if err := passable(stateDir); err != nil {
		return "", err
	}
	me, err := ownerOf(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("gvisor: record the owner: %w", err)
	}
	b, err := json.Marshal(me)
	if err != nil {
		return "", fmt.Errorf("gvisor: record the owner: %w", err)
	}
	tmp, err := os.MkdirTemp(stateDir, newPrefix)
	if err != nil {
		return "", fmt.Errorf("gvisor: make run folder: %w", err)
	}
	final := runDir(filepath.Join(stateDir, id))
	err = fillRunDir(runDir(tmp), b)
	if err == nil {
		err = os.Rename(tmp, string(final)) // fails on an existing folder, which is never empty
	}
	if err != nil {
		os.RemoveAll(tmp)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
			return "", fmt.Errorf("gvisor: a sandbox %s exists already below %s; if nothing uses it, \"wallproof gc\" removes it", id, stateDir)
		}
		return "", fmt.Errorf("gvisor: make run folder: %w", err)
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
			return fmt.Errorf("gvisor: state folder: %w", err)
		}
		if fi.Mode()&0o001 == 0 {
			return fmt.Errorf("gvisor: sandboxes cannot reach their state folder through %s: \"chmod o+x\" it, or choose a state folder below /run", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func fillRunDir(r runDir, ownerRecord []byte) error {
	if err := os.WriteFile(r.owner(), ownerRecord, 0o600); err != nil {
		return err
	}
	for dir, mode := range map[string]fs.FileMode{
		r.bundle(): 0o700, r.etc(): 0o711, r.layer(): 0o711, r.root(): 0o711, r.runsc(): 0o711, string(r): 0o711,
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

func ownerOf(pid int) (owner, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return owner{}, err
	}
	// The command name, field 2, is in parentheses and may contain anything.
	_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
	fields := strings.Fields(rest)
	const startField = 22 - 3 // rest begins with field 3
	if len(fields) <= startField {
		return owner{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return owner{}, err
	}
	return owner{PID: pid, Start: fields[startField], Boot: strings.TrimSpace(string(boot))}, nil
}

// alive says whether the recorded process still runs.
func (o owner) alive() bool {
	if o.PID <= 0 {
		return false
	}
	now, err := ownerOf(o.PID)
	return err == nil && now == o
}

// readOwner returns the zero owner, which is not alive, when there is no
// readable record.
func (r runDir) readOwner() owner {
	var o owner
	b, err := os.ReadFile(r.owner())
	if err != nil || json.Unmarshal(b, &o) != nil {
		return owner{}
	}
	return o
}
