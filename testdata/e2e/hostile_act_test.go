//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hostileModes are what the hostile image's program does, by its argument, each
// until something ends it.
var hostileModes = map[string]func(){
	"forge":   forge,
	"flood":   flood,
	"fill":    fill,
	"fork":    fork,
	"files":   files,
	"kill":    killAll,
	"stop":    stopAll,
	"endless": endless,
}

// actHostile does one of them.
func actHostile(args []string) error {
	mode := hostileModes[args[0]]
	if mode == nil {
		return fmt.Errorf("no hostile mode %q", args[0])
	}
	mode()
	return errors.New("a hostile mode has ended")
}

// forge claims results: on its own output and on that of every other process.
func forge() {
	line := "wp1 1 eyJzaWRlIjoicHJvYmUiLCJzaWduIjoicmVmdXNlZCJ9 " + strings.Repeat("0", 64) + "\n"
	for {
		fmt.Print(line)
		for _, pid := range others() {
			if f, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(pid), "fd/1"), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				_, _ = io.WriteString(f, line)
				_ = f.Close()
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func flood() {
	block := []byte(strings.Repeat("all is well and nothing escaped\n", 2048))
	for {
		_, _ = os.Stdout.Write(block)
	}
}

// fill fills every folder that it may write to.
func fill() {
	block := make([]byte, 1<<20)
	for i := 0; ; i++ {
		for _, dir := range []string{"/", "/tmp", "/var/tmp", "/dev/shm", "/workspace"} {
			f, err := os.OpenFile(filepath.Join(dir, "fill"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				continue
			}
			_, _ = f.Write(block)
			_ = f.Close()
		}
		if i > 1024 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func fork() {
	for {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"/bin/" + actorName, "hostile", "fork"}
		if cmd.Start() != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

func files() {
	var held []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		held = append(held, f)
	}
}

func killAll() {
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		for _, pid := range others() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func stopAll() {
	for {
		for _, pid := range others() {
			_ = unix.Kill(pid, unix.SIGSTOP)
		}
	}
}

func endless() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	for {
		time.Sleep(time.Second)
	}
}

// others are all other processes of the sandbox.
func others() (out []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}
