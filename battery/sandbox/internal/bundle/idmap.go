package bundle

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// MapNamespace returns a user namespace for MapMount that turns IDCount stored
// ids from base on into the ids from 0 on, and these into those, so that what
// belongs to the host's root shows as belonging to an id that nothing has. Other
// ids stay as they are. The caller closes it.
//
// A user namespace needs a process to be made: it is this program, stopped
// before its first instruction and killed once the namespace is held.
func MapNamespace(base uint32) (*os.File, error) {
	mapping := swapped(int(base))
	runtime.LockOSThread() // a traced process belongs to the thread that started it
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"wallproof-idmap"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping, Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ns, err := os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user")
	if killErr := p.Kill(); killErr == nil {
		p.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("open the user namespace: %w", err)
	}
	return ns, nil
}

// swapped is the mapping of MapNamespace. ContainerID is what is stored, HostID
// what it becomes.
func swapped(base int) []syscall.SysProcIDMap {
	out := []syscall.SysProcIDMap{{ContainerID: base, HostID: 0, Size: IDCount}}
	if base < IDCount {
		return out // the two overlap: what else is stored belongs to nobody
	}
	out = append(out, syscall.SysProcIDMap{ContainerID: 0, HostID: base, Size: IDCount})
	for _, same := range [][2]int{{IDCount, base}, {base + IDCount, math.MaxUint32}} {
		if size := same[1] - same[0]; size > 0 {
			out = append(out, syscall.SysProcIDMap{ContainerID: same[0], HostID: same[0], Size: size})
		}
	}
	return out
}

// MapMount mounts source, a file or folder, at target, which it makes, with the
// ids that source stores changed by a namespace of MapNamespace, or as they are
// if it is nil.
func MapMount(source, target string, idMap *os.File) error {
	fi, err := os.Stat(source)
	if err != nil {
		return err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open %s as a mount: %w", source, err)
	}
	defer unix.Close(fd)
	if idMap != nil {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(idMap.Fd())}
		err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
		if errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("map the ids of %s: its file system, or one mounted on it, cannot do that under this kernel (ext4, xfs and btrfs can; tmpfs from Linux 6.3 on): %w", source, err)
		}
		if err != nil {
			return fmt.Errorf("map the ids of %s: %w", source, err)
		}
	}
	if fi.IsDir() {
		err = os.Mkdir(target, 0o711)
	} else {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	return nil
}
