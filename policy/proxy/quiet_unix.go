//go:build unix

package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quiet says whether an idle connection is open and has said nothing. Over TLS
// bytes may be waiting (session tickets), so there only the end counts.
func quiet(c net.Conn, encrypted bool) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		alive = err == unix.EAGAIN || err == nil && n > 0 && encrypted
		return true
	})
	return err == nil && alive
}
