package site

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// swap exchanges two folders in one step, so that there is no moment without a
// site. File systems that cannot do that get the two-step way.
func swap(dir, out string) error {
	err := exchange(dir, out)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return aside(dir, out)
	}
	return err
}

// exchange exchanges two files or folders in one step.
func exchange(a, b string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// lockFolder takes the lock of a folder. It reports false where somebody else has
// it, or there is no such folder. Closing the file gives it back.
func lockFolder(dir string) (*os.File, bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return f, true
}

// create writes a file that must not be there yet, and identifies it. in is its folder,
// where that is open. It goes without what os.File prepares for files that can be
// waited for: a large site has very many.
func create(in folder, path string, content []byte) (id fileID, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	name := path
	if in != noFolder {
		name = filepath.Base(path)
	}
	fd, err := unix.Openat(int(in), name, flags, 0o644)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat(int(in), name, flags, 0o644)
	}
	if err != nil {
		return id, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	for err == nil && len(content) > 0 {
		var n int
		if n, err = unix.Write(fd, content); errors.Is(err, unix.EINTR) {
			n, err = 0, nil
		}
		content = content[max(n, 0):]
	}
	var s unix.Stat_t
	if err == nil && unix.Fstat(fd, &s) == nil {
		id, _ = idOf(&s)
	}
	if e := unix.Close(fd); err == nil && !errors.Is(e, unix.EINTR) {
		err = e
	}
	if err != nil {
		return fileID{}, &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return id, nil
}
