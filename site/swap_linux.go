package site

import (
	"errors"

	"golang.org/x/sys/unix"
)

// swap exchanges two folders in one step, so that there is no moment without a
// site. File systems that cannot do that get the two-step way.
func swap(dir, out string) error {
	err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, out, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return aside(dir, out)
	}
	return err
}
