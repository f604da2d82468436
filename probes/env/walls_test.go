package env

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What asks whether a module could be loaded loads none and takes none away, whoever
// asks: with the capability it is the arguments that the kernel complains of.
func TestModuleCallsDoNothing(t *testing.T) {
	for _, name := range []string{"init_module", "finit_module", "delete_module"} {
		i := slices.IndexFunc(calls, func(c call) bool { return c.name == name })
		if i < 0 {
			t.Errorf("%s is not tried", name)
			continue
		}
		c := calls[i]
		_, _, errno := unix.Syscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], 0, 0)
		switch errno {
		case unix.EPERM, unix.EACCES, unix.ENOSYS: // nobody's here
		case unix.ENOEXEC, unix.EINVAL, unix.EFAULT, unix.EBADF: // somebody's, who asked for nothing
		default:
			t.Errorf("%s: %v", name, errno)
		}
	}
}
