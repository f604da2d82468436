package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killTimeout = 10 * time.Second // for killed processes to be gone
	maxCmdline  = 64 << 10         // bytes of a process's arguments that are looked at
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
func destroy(dir runDir) error {
	if err := killAll(dir); err != nil {
		return err
	}
	if err := unmountRoot(dir); err != nil {
		return err
	}
	if err := removeCgroups(cgroupRoot, filepath.Base(string(dir))); err != nil {
		return err
	}
	if err := os.RemoveAll(string(dir)); err != nil {
		return fmt.Errorf("remove run folder: %w", err)
	}
	return nil
}

// killAll kills every process of the run folder's runtime and waits until they
// are gone. It looks again until it finds none, because one of them may have
// started another meanwhile.
func killAll(dir runDir) error {
	deadline := time.Now().Add(killTimeout)
	for {
		fds, err := findProcesses(dir.rootArg())
		if err != nil || len(fds) == 0 {
			return err
		}
		for _, fd := range fds {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				closeAll(fds)
				return fmt.Errorf("kill the runtime's process: %w", err)
			}
		}
		err = waitAll(fds, deadline)
		closeAll(fds)
		if err != nil {
			return err
		}
	}
}

// findProcesses returns a descriptor for each process that has arg among its
// arguments. The arguments are read once the descriptor is held, so that a
// process id that is used again cannot be mistaken.
func findProcesses(arg string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var fds []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !hasArg(pid, arg) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if !hasArg(pid, arg) {
			unix.Close(fd)
			continue
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// sandboxCommand is the runtime's internal subcommand that is the sandbox.
const sandboxCommand = "boot"

// running says whether the sandbox's own process is there. When in doubt it
// is.
func (b *box) running() bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && hasArg(pid, b.dir.rootArg()) && hasArg(pid, sandboxCommand) {
			return true
		}
	}
	return false
}

func hasArg(pid int, arg string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCmdline))
	if err != nil {
		return false
	}
	for a := range bytes.SplitSeq(b, []byte{0}) {
		if string(a) == arg {
			return true
		}
	}
	return false
}

// waitAll waits until every process has ended. A pidfd becomes readable then.
func waitAll(fds []int, deadline time.Time) error {
	for _, fd := range fds {
		for {
			left := time.Until(deadline)
			if left <= 0 {
				return fmt.Errorf("a killed process of the runtime did not end within %s", killTimeout)
			}
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for the runtime's process: %w", err)
			}
			if n > 0 {
				break
			}
		}
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
