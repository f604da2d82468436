package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killTimeout = 10 * time.Second // for killed processes to be gone
	maxCmdline  = 64 << 10         // bytes of a process's arguments that are looked at
)

// Processes are open descriptors of processes (pidfds), so that a process id
// that is used again cannot be mistaken.
type Processes []int

// Close closes the descriptors.
func (p Processes) Close() {
	for _, fd := range p {
		unix.Close(fd)
	}
}

// Find returns a descriptor for each living process of the host that match
// accepts. It is asked again once the descriptor is held.
func Find(match func(pid int) bool) (Processes, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found Processes
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !match(pid) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if Ended(fd) || !match(pid) { // a zombie has ended, but one whose threads go on has not
			unix.Close(fd)
			continue
		}
		found = append(found, fd)
	}
	return found, nil
}

// KillAll kills every process that find returns and waits until they are gone.
// It looks again until it finds none, because one of them may have started
// another meanwhile.
func KillAll(find func() (Processes, error)) error {
	deadline := time.Now().Add(killTimeout)
	for {
		found, err := find()
		if err != nil || len(found) == 0 {
			return err
		}
		err = found.kill(deadline)
		found.Close()
		if err != nil {
			return err
		}
	}
}

func (p Processes) kill(deadline time.Time) error {
	for _, fd := range p {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill a process of the sandbox: %w", err)
		}
	}
	for _, fd := range p {
		ended, err := waitEnd(fd, deadline)
		if err != nil {
			return fmt.Errorf("wait for a killed process of the sandbox: %w", err)
		}
		if !ended {
			return fmt.Errorf("a killed process of the sandbox did not end within %s", killTimeout)
		}
	}
	return nil
}

// Ended says whether the process has ended. When in doubt it has not.
func Ended(pidfd int) bool {
	ended, err := waitEnd(pidfd, time.Now())
	return err == nil && ended
}

// waitEnd waits until a process has ended: a pidfd becomes readable then.
func waitEnd(pidfd int, deadline time.Time) (bool, error) {
	for {
		left := max(0, time.Until(deadline).Milliseconds())
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n > 0:
			return n > 0, err
		case left == 0:
			return false, nil
		}
	}
}

// HasArgs says whether all of want are among a process's arguments.
func HasArgs(pid int, want ...string) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCmdline))
	if err != nil {
		return false
	}
	args := bytes.Split(b, []byte{0})
	for _, w := range want {
		if !slices.ContainsFunc(args, func(a []byte) bool { return string(a) == w }) {
			return false
		}
	}
	return true
}

// Parent is the id of a process's parent, 0 if it is not known.
func Parent(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	const parentField = 4 - 3
	fields := statFields(stat)
	if len(fields) <= parentField {
		return 0
	}
	n, err := strconv.Atoi(fields[parentField])
	if err != nil {
		return 0
	}
	return n
}

// statFields are the fields of /proc/PID/stat from the third on. The second,
// the command name, is in parentheses and may contain anything.
func statFields(stat []byte) []string {
	_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	return strings.Fields(rest)
}
