package beside

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What is more than a program of an image has any use for.
const (
	maxProcesses  = 256
	manyProcesses = 32              // from here on it is waited whether they become more
	crowdTime     = 8 * time.Second // a look takes long where a bomb goes off
	looks         = 40              // at most, as long as they do
	stable        = 4               // looks without one more: they are all
	spareFiles    = 16              // descriptors below a process's limit
	manyFiles     = 256             // of one process: from here on it is waited whether they become more
	room          = 1 << 20         // bytes that can still be written
)

// limited are what a process may be limited in from outside, by whoever has its user
// (prlimit(2)).
var limited = [...]int{unix.RLIMIT_NOFILE, unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE, unix.RLIMIT_AS, unix.RLIMIT_DATA, unix.RLIMIT_STACK, unix.RLIMIT_CPU, unix.RLIMIT_MEMLOCK}

// limits are this process's own.
func limits() (out [len(limited)]unix.Rlimit) {
	for i, what := range limited {
		_ = unix.Prlimit(0, what, nil, &out[i]) // what cannot be read stays zero, both times
	}
	return out
}

// pressure tells what there is no more of in the sandbox.
func pressure() (out []string) {
	full := ""
	most := 0 // descriptors of one process
	look := func() (n int) {
		time.Sleep(settle / 2)
		var taken string
		if n, most, taken = processes(); taken != "" {
			full = taken
		}
		return n
	}
	n, endless := crowd(manyProcesses, maxProcesses, look)
	if full == "" {
		_, taking := crowd(manyFiles, math.MaxInt, func() int { look(); return most })
		if taking && full == "" {
			full = fmt.Sprintf("a process takes descriptors without end: %d", most)
		}
	}
	if n > maxProcesses || endless {
		out = append(out, fmt.Sprintf("%d processes run in the sandbox", n))
	}
	if full != "" {
		out = append(out, full)
	}
	if err := exec.Command("/proc/self/exe").Run(); err != nil { // it prints its usage and ends
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			out = append(out, "no process can be started: "+err.Error())
		}
	}
	for _, dir := range []string{"/", "/tmp", "/var/tmp", "/dev/shm"} {
		if err := write(dir); errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			out = append(out, fmt.Sprintf("nothing can be written to %s any more: %v", dir, err))
		}
	}
	return out
}

// crowd counts processes, or descriptors. Where there are many it counts on until
// there are too many, no more come, or more come each time it looks: a fork bomb may
// be slow.
func crowd(many, most int, count func() int) (n int, endless bool) {
	n = count()
	quiet, began := 0, time.Now()
	for i := 1; n > many && n <= most && quiet < stable; i++ {
		if i == looks || time.Since(began) > crowdTime {
			return n, true
		}
		if next := count(); next > n {
			n, quiet = next, 0
		} else {
			quiet++
		}
	}
	return n, false
}

// processes counts the processes, and the most descriptors that one of the others
// has; full names one that has taken all that it may have.
func processes() (n, most int, full string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0, "the processes cannot be listed: " + err.Error()
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		n++
		if full != "" || pid == os.Getpid() || n > maxProcesses {
			continue
		}
		held, all := descriptors(pid)
		if most = max(most, held); all {
			full = fmt.Sprintf("process %d has taken every descriptor that it may have", pid)
		}
	}
	return n, most, full
}

// descriptors counts those of a process, and tells whether they are all that it may
// have.
func descriptors(pid int) (n int, all bool) {
	limit := uint64(1024)
	var l unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l) == nil {
		limit = l.Cur
	}
	d, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		return 0, false
	}
	defer d.Close()
	names, err := d.Readdirnames(int(min(limit, 1<<20)) + 1)
	return len(names), err == nil && uint64(len(names)+spareFiles) >= limit
}

// write writes a little to a folder and takes it away again.
func write(dir string) error {
	f, err := os.CreateTemp(dir, ".wallproof-room-")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EROFS) {
			return nil
		}
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(strings.Repeat("x", room))
	return errors.Join(err, f.Close())
}
