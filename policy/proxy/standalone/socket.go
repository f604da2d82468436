//go:build linux

package standalone

import (
	"net"
	"os"
	"reflect"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/policy"
)

// ListenPrivate opens a Unix socket that nobody but its owner can connect to,
// not even between its making and a change of its mode.
func ListenPrivate(path string) (net.Listener, error) {
	old := unix.Umask(0o177)
	l, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// sameSource compares where two values come from, not where that is written.
func sameSource(a, b policy.Source) bool {
	a.Pos, b.Pos = policy.Pos{}, policy.Pos{}
	return reflect.DeepEqual(a, b)
}
