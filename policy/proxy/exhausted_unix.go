//go:build unix

package proxy

import (
	"errors"
	"syscall"
)

// isExhausted says whether an accept failed because descriptors or memory ran
// out, which passes.
func isExhausted(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
