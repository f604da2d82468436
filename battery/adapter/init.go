package adapter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// resolvFile is the file in the proxy's folder that stands for /etc/resolv.conf.
const resolvFile = "resolv.conf"

// Main is the first process of a foreign proxy's process namespace: it makes the
// resolver's file and /proc those of the namespaces, starts the proxy as its user
// and without a way to privileges, hands signals on, and ends with it. args are
// the user's id, the proxy's folder and the executable.
func Main(args []string) int {
	if err := initMain(args); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return max(exit.ExitCode(), 1)
		}
		fmt.Fprintln(os.Stderr, "wallproof:", err)
		return 1
	}
	return 0
}

func initMain(args []string) error {
	if len(args) != 3 {
		return errors.New("three arguments are expected")
	}
	uid, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil || uid == 0 {
		return fmt.Errorf("%q is no unprivileged user", args[0])
	}
	if err := ownMounts(filepath.Join(args[1], resolvFile)); err != nil {
		return err
	}
	runtime.LockOSThread() // no_new_privs is a thread's, and the parent-death signal follows it
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	cmd := &exec.Cmd{Path: args[2], Args: []string{args[2]}, Dir: args[1], Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Setsid: true}}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s as user %d: %w", args[2], uid, err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	return cmd.Wait()
}

// ownMounts gives this mount namespace its own resolver, process table and shared
// memory.
func ownMounts(resolv string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this namespace: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the namespace's own /proc: %w", err)
	}
	// Shared memory has names: those of another proxy on this machine are not ours.
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=256m"); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("mount the namespace's own /dev/shm: %w", err)
	}
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return nil // this machine has none: what resolves names there is told its resolver otherwise
	}
	if err := unix.Mount(resolv, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("put the resolver in place: %w", err)
	}
	return nil
}
