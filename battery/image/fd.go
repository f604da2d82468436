package image

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// setMeta gives an open file or folder its owner and then its mode, since a
// change of owner may clear mode bits.
func setMeta(fd int, m meta) error {
	if err := unix.Fchown(fd, m.uid, m.gid); err != nil {
		return fmt.Errorf("set owner: %w", err)
	}
	if err := unix.Fchmod(fd, m.mode); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return nil
}

func inode(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// openFolder opens a folder by its name in another, not through a link.
func openFolder(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// notFolder says whether openFolder failed because something else is there.
func notFolder(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// list reads a folder's names.
func list(dir int) ([]string, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

// removeAll removes a name and all below it, without following a link. It
// holds one descriptor a level, and levels are limited.
func removeAll(at int, name string) error {
	child, err := openFolder(at, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case notFolder(err):
		return unix.Unlinkat(at, name, 0)
	case err != nil:
		return err
	}
	defer unix.Close(child)
	names, err := list(child)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAll(child, n); err != nil {
			return err
		}
	}
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}
