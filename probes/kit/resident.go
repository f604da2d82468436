package kit

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Resident asks whether the page of an open file at an offset, a multiple of the page
// size, is in memory, without reading it (mincore(2)).
func Resident(fd int, at int64) (bool, error) {
	size := os.Getpagesize()
	b, err := unix.Mmap(fd, at, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Munmap(b) }() // of this function's own making
	var state [1]byte
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(size), uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
		return false, errno
	}
	return state[0]&1 != 0, nil
}
