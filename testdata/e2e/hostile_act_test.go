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
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/google/nftables"
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
	"limits":  limitAll,
	"daemon":  daemonize,
}

// sly are what a program does that hides what it does: it disturbs nothing that can be
// seen, and may for all that not get a wall called one that is none.
var sly = map[string]func(){
	"trace":   traceAll,
	"rewrite": rewrite,
	"pause":   pauseAll,
	"subvert": subvert,
	"bloat":   bloat,
}

// actHostile does one of them.
func actHostile(args []string) error {
	mode := hostileModes[args[0]]
	if mode == nil {
		mode = sly[args[0]]
	}
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

// limitAll takes the right to open anything from all other processes.
func limitAll() {
	for {
		for _, pid := range others() {
			_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
		}
	}
}

// daemonize ends at once and leaves behind, in a session of its own, what kills all
// others.
func daemonize() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"/bin/" + actorName, "hostile", "kill"}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if cmd.Start() == nil {
		os.Exit(0)
	}
}

// traceAll takes hold of all other processes, reads and overwrites what of them it can,
// and lets none of them go on.
func traceAll() {
	runtime.LockOSThread() // a tracer is a thread
	buf := make([]byte, 4096)
	for {
		for _, pid := range others() {
			_ = unix.PtraceAttach(pid)
			if f, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(pid), "mem"), os.O_RDWR, 0); err == nil {
				_, _ = f.ReadAt(buf, 0x400000)
				_, _ = f.WriteAt(buf, 0xc000000000)
				_ = f.Close()
			}
			_, _ = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: 4096}}, []unix.RemoteIovec{{Base: 0xc000000000, Len: 4096}}, 0)
		}
		time.Sleep(time.Millisecond)
	}
}

// rewrite changes every file by which a program finds its way: names, resolvers,
// authorities, its own settings, and what lies where others write.
func rewrite() {
	text := []byte("192.0.2.1 " + strings.Repeat("x.example ", 100) + "\nnameserver 192.0.2.99\n")
	for {
		for _, path := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/host.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/ld.so.preload",
			"/etc/passwd", "/etc/services", "/etc/protocols", "/etc/localtime", "/.wallproof/wallproof-probe", "/proc/sys/net/ipv4/ip_local_port_range", "/proc/self/oom_score_adj"} {
			_ = os.Remove(path)
			_ = os.WriteFile(path, text, 0o777)
		}
		for _, path := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run"} {
			_ = os.Rename(path, path+".moved")
			_ = os.Symlink("/proc/self/mem", path)
			_ = unix.Mkfifo(path+"/fifo", 0o666)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// subvert tries what would change the ground under everybody: it mounts over the
// kernel's files and the tools, sets the clock back, has the kernel filter packets and
// system calls of its own choice, becomes the parent of orphans, and leaves a program
// behind that any user runs as root.
func subvert() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if self, err := os.ReadFile("/proc/self/exe"); err == nil {
		_ = os.WriteFile("/tmp/helper", self, 0o755)
		_ = os.Chmod("/tmp/helper", 0o755|os.ModeSetuid)
	}
	for past := int64(0); ; past += 86400 {
		for _, path := range []string{"/proc", "/proc/self", "/dev", "/sys", "/etc", "/.wallproof", "/.wallproof/wallproof-probe"} {
			_ = unix.Mount("tmpfs", path, "tmpfs", 0, "")
			_ = unix.Mount("/tmp", path, "", unix.MS_BIND, "")
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
		_ = unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET)
		_ = unix.Settimeofday(&unix.Timeval{Sec: 946684800 + past})
		_ = unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: 4102444800 + past})
		refuseAll()
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}
		program := unix.SockFprog{Len: 1, Filter: &allow}
		_, _, _ = unix.Syscall(unix.SYS_SECCOMP, 1, 1, uintptr(unsafe.Pointer(&program))) // SET_MODE_FILTER, for all threads
		for _, args := range [][]string{{"/tmp/helper", "hostile", "kill"}, {"/proc/self/exe", "hostile", "stop"}} {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if cmd.Start() == nil {
				time.Sleep(20 * time.Millisecond)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// refuseAll has the kernel of its network refuse all that goes out, if it may.
func refuseAll() {
	conn, err := nftables.New()
	if err != nil {
		return
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "hostile"})
	drop := nftables.ChainPolicyDrop
	conn.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter, Policy: &drop})
	_ = conn.Flush()
}

// bloat makes the files by which names are found so long that whoever reads them is
// busy with that.
func bloat() {
	line := []byte("192.0.2.1 " + strings.Repeat("x.example ", 400) + "\nnameserver 192.0.2.99\nsearch " + strings.Repeat("y.example ", 400) + "\n")
	for _, path := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/services", "/etc/ssl/certs/ca-certificates.crt"} {
		_ = os.Remove(path)
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644); err == nil {
			for range 4096 { // 32 MiB each
				_, _ = f.Write(line)
			}
			_ = f.Close()
		}
	}
	for {
		time.Sleep(time.Second)
	}
}

// pauseAll stops all others and lets them go on, so that nothing happens when it was
// meant to.
func pauseAll() {
	for {
		for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
			for _, pid := range others() {
				_ = unix.Kill(pid, signal)
			}
			time.Sleep(20 * time.Millisecond)
		}
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
