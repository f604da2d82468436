package boundary

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownersDir holds a folder a run, with the file "owner" in it: "PID START", where
// START is the process's start time in clock ticks since boot (field 22 of
// /proc/PID/stat), which tells it from a later process with the same number.
const ownersDir = "/run/wallproof"

// ErrClaimed: another living process owns the run.
var ErrClaimed = errors.New("the run belongs to another process")

// Claim records this process as the owner of a run, so that Sweep leaves the
// run's namespaces alone as long as the process lives. The record of a dead
// process is taken over. release removes the record.
func Claim(run string) (release func() error, err error) {
	if !validRun(run) {
		return nil, fmt.Errorf("%w: run %q is not 8 lower-case hex characters", ErrConfig, run)
	}
	start, err := startTime(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("claim run %s: %w", run, err)
	}
	dir := filepath.Join(ownersDir, run)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("claim run %s: %w", run, err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("claim run %s: %w", run, err)
	}
	defer unlock()
	if Alive(run) {
		return nil, fmt.Errorf("claim run %s: %w", run, ErrClaimed)
	}
	// Whole or not at all, whatever happens in between.
	tmp := filepath.Join(dir, "owner.new")
	record := fmt.Appendf(nil, "%d %s\n", os.Getpid(), start)
	if err := errors.Join(os.WriteFile(tmp, record, 0o600), os.Rename(tmp, filepath.Join(dir, "owner"))); err != nil {
		return nil, fmt.Errorf("claim run %s: %w", run, err)
	}
	return func() error { return disown(run) }, nil
}

// lockDir keeps two processes from claiming one run at a time.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// disown removes a run's record, and its folder if nothing else is in it.
func disown(run string) error {
	dir := filepath.Join(ownersDir, run)
	if err := os.Remove(filepath.Join(dir, "owner")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	err := os.Remove(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}

// Alive tells whether the process that claimed the run still runs.
func Alive(run string) bool {
	if !validRun(run) {
		return false
	}
	b, err := os.ReadFile(filepath.Join(ownersDir, run, "owner"))
	if err != nil {
		return false
	}
	pidText, start, ok := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, err := strconv.Atoi(pidText)
	if !ok || err != nil {
		return false
	}
	now, err := startTime(pid)
	return err == nil && now == start
}

var errProcStat = errors.New("/proc/PID/stat cannot be read")

// startTime is field 22 of /proc/PID/stat. The second field, the command, may
// itself hold spaces and parentheses, so counting begins behind the last one. A
// zombie has ended.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", err
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return "", errProcStat
	}
	const stateField, startField = 0, 19 // 3 and 22, counted from behind the command
	fields := strings.Fields(string(b[i+1:]))
	if len(fields) <= startField {
		return "", errProcStat
	}
	if s := fields[stateField]; s == "Z" || s == "X" {
		return "", fs.ErrNotExist
	}
	return fields[startField], nil
}
