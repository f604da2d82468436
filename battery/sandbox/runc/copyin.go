package runc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// CopyIn implements sandbox.Sandbox. The file is written from the host's side,
// through the first process's root: paths are resolved beneath it, whatever links
// and ".." there are and however they change meanwhile, and never by way of /proc's
// own links. It appears whole, by a rename.
func (b *box) CopyIn(ctx context.Context, target string, mode fs.FileMode, r io.Reader) error {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		return fmt.Errorf("copy into %s: %q is not a clean absolute path", b.spec.ID, target)
	}
	err := asOwner(int(b.profile.base(b.spec)), func() error { return b.copyIn(ctx, target, mode, r) })
	if err != nil {
		return fmt.Errorf("copy into %s: %w", b.spec.ID, err)
	}
	return nil
}

// asOwner calls f on a thread that makes files as a host id, and may otherwise do
// all that it may. A file system that was mounted in a user namespace takes none
// of an id that is not in it, as the host's root is not.
func asOwner(id int, f func() error) error {
	if id == 0 {
		return f()
	}
	return onThread(func() error {
		if err := becomeOwner(id); err != nil {
			return fmt.Errorf("make files as %d: %w", id, err)
		}
		return f()
	})
}

func becomeOwner(id int) error {
	if _, err := unix.SetfsgidRetGid(id); err != nil {
		return err
	}
	if _, err := unix.SetfsuidRetUid(id); err != nil {
		return err
	}
	// That took away the capabilities over files that belong to others.
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return err
	}
	for i := range caps {
		caps[i].Effective = caps[i].Permitted
	}
	return unix.Capset(&head, &caps[0])
}

func (b *box) copyIn(ctx context.Context, target string, mode fs.FileMode, r io.Reader) error {
	root, err := b.openRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	owner := int(b.profile.base(b.spec))
	dir, err := openParents(root, path.Dir(target), owner)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := plainFileSystem(dir); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	name, err := temporaryName()
	if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	f := os.NewFile(uintptr(fd), target)
	defer f.Close()
	err = b.fill(ctx, f, mode, r)
	if err == nil {
		err = unix.Renameat(dir, name, dir, path.Base(target))
	}
	if err != nil {
		unix.Unlinkat(dir, name, 0)
		return fmt.Errorf("%s: %w", target, err)
	}
	return nil
}

// fill copies and sets owner and mode. The owner comes first, because a change
// of owner clears mode bits.
func (b *box) fill(ctx context.Context, f *os.File, mode fs.FileMode, r io.Reader) error {
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, sourceOf(r))
		copied <- err
	}()
	select {
	case err := <-copied:
		if err != nil {
			return err
		}
	case <-ctx.Done(): // the copying ends when the caller closes f
		return context.Cause(ctx)
	}
	base := b.profile.base(b.spec)
	if err := f.Chown(int(base+b.spec.User.UID), int(base+b.spec.User.GID)); err != nil {
		return err
	}
	return f.Chmod(mode.Perm())
}

// source marks the errors of a reader as its own. It hides what else the reader
// can do, so that it is only read.
type source struct{ r io.Reader }

func sourceOf(r io.Reader) io.Reader { return source{r} }

// Read implements io.Reader.
func (s source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read the source: %w", err)
	}
	return n, err
}

// openRoot opens the root folder of the first process, as that process sees it.
func (b *box) openRoot() (int, error) {
	if b.ending.Load() || !b.running() {
		return -1, sandbox.ErrEnded
	}
	pid, err := readPid(path.Join(b.dir.Bundle(), initPidFile))
	if err != nil {
		return -1, b.explain(err)
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, b.explain(err)
	}
	if !b.running() { // else the id was its own when it was used
		unix.Close(root)
		return -1, sandbox.ErrEnded
	}
	return root, nil
}

// inside is how every path inside is opened from the host.
func inside(root int, name string, flags uint64) (int, error) {
	return unix.Openat2(root, strings.TrimPrefix(name, "/"), &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// openParents opens a folder inside, and makes it and its parents where they are
// missing.
func openParents(root int, dir string, owner int) (int, error) {
	if dir == "/" {
		dir = "/."
	}
	fd, err := inside(root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if !errors.Is(err, unix.ENOENT) || dir == "/." {
		if err != nil {
			err = fmt.Errorf("open %s: %w", dir, err)
		}
		return fd, err
	}
	parent, err := openParents(root, path.Dir(dir), owner)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := makeFolder(parent, path.Base(dir), owner); err != nil {
		return -1, fmt.Errorf("make %s: %w", dir, err)
	}
	fd, err = unix.Openat(parent, path.Base(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", dir, err)
	}
	return fd, nil
}

func makeFolder(parent int, name string, owner int) error {
	if err := plainFileSystem(parent); err != nil {
		return err
	}
	err := unix.Mkdirat(parent, name, 0o755)
	if errors.Is(err, unix.EEXIST) {
		return nil // made at the same time by another copy, or by something inside
	}
	if err != nil {
		return err
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, owner, owner); err != nil {
		return err
	}
	return unix.Fchmod(fd, 0o755) // whatever the umask
}

// kernelFileSystems are those in which a new name is not a file but an order to
// the kernel.
var kernelFileSystems = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true, unix.DEBUGFS_MAGIC: true,
	unix.TRACEFS_MAGIC: true, unix.SECURITYFS_MAGIC: true, unix.BPF_FS_MAGIC: true, unix.DEVPTS_SUPER_MAGIC: true, configfsMagic: true,
}

// configfsMagic is configfs's number, fs/configfs/mount.c.
const configfsMagic = 0x62656570

// plainFileSystem refuses a folder of the kernel's: links inside could have led
// there, and the host's root may do there what the sandbox may not.
func plainFileSystem(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if kernelFileSystems[int64(st.Type)] {
		return errors.New("it lies in a file system of the kernel's")
	}
	return nil
}

func temporaryName() (string, error) {
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return ".wallproof-copyin-" + hex.EncodeToString(b), nil
}
