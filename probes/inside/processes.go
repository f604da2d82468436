package inside

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endAttempts bounds how often End looks whether everything is gone; endPause is
// the wait in between.
const (
	endAttempts = 100
	endPause    = 50 * time.Millisecond
)

// End ends every process of the sandbox but its first and this one, and returns
// only once they are gone. A process that a user has left behind so goes on in no
// later phase. It takes root.
func End() error {
	var left []int
	for range endAttempts {
		// Stopped first, so that none makes another while they are ended.
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			if err := unix.Kill(-1, sig); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end what is left in the sandbox: %w", err)
			}
		}
		var err error
		if left, err = others(); err != nil || len(left) == 0 {
			return err
		}
		time.Sleep(endPause)
	}
	return fmt.Errorf("%d processes are still there, of which one is %d", len(left), left[0])
}

// Halt stops every process of the sandbox but its first and this one, until
// Resume. It takes root, so that no user's process can resume them.
func Halt() error { return signalAll(unix.SIGSTOP) }

// Resume lets what Halt stopped go on.
func Resume() error { return signalAll(unix.SIGCONT) }

func signalAll(sig unix.Signal) error {
	if err := unix.Kill(-1, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal the sandbox's processes: %w", err)
	}
	return nil
}

// others lists processes besides the first and this one that have not ended.
func others() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the sandbox's processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		// "PID (NAME) STATE …"; the name may hold anything.
		_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if ok && (strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")) {
			continue // ended, and waits for its parent
		}
		out = append(out, pid)
	}
	return out, nil
}
