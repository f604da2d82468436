package site

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// identify asks the operating system about a regular file. It reports false for
// everything else, and where nothing is there.
func identify(path string) (fileID, bool) {
	return noFolder.identify(path)
}

// folder is the descriptor of an open folder.
type folder int

// noFolder stands for a folder that is not open: paths are then as they are.
const noFolder = folder(unix.AT_FDCWD)

// inFolder opens a folder for identify.
func inFolder(dir string) (folder, bool) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return folder(fd), err == nil
}

func (f folder) close() { unix.Close(int(f)) }

// identify is identify for a file in the folder.
func (f folder) identify(name string) (fileID, bool) {
	var s unix.Stat_t
	if unix.Fstatat(int(f), name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return fileID{}, false
	}
	return idOf(&s)
}

func idOf(s *unix.Stat_t) (fileID, bool) {
	if s.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return fileID{}, false
	}
	return fileID{
		Device: uint64(s.Dev), Inode: s.Ino, Size: s.Size, //nolint:unconvert // other architectures have other types
		Modified: s.Mtim.Nano(), Changed: s.Ctim.Nano(),
	}, true
}

// keepsChangeTime tells whether the file system of a folder notes the time of
// each change of a file by the kernel's own clock, in a field that no program can
// set. File systems that come over a network, and those without such a field, do
// not.
func keepsChangeTime(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return false
	}
	switch uint32(s.Type) { //nolint:gosec // a magic number of 32 bits
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}
