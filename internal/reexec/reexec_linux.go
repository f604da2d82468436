package reexec

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"github.com/wallproof/wallproof/battery/adapter"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/policy/proxy"
	"golang.org/x/sys/unix"
)

// shedCapabilities gives up all capabilities of all threads: an ordinary service has
// none. A process that had more than a sandbox would be out of a sandbox's sight by that
// alone (ptrace(2), access mode checking), whatever else were shared. The kernel refuses
// nobody to give something up.
func shedCapabilities() {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none)), 0)
	runtime.KeepAlive(&hdr)
	runtime.KeepAlive(&none)
}

// share puts a text into a segment of System V shared memory that ends with this
// process: who shares the host's namespace of them sees it. It returns nil where the
// kernel has none.
func share(text string) []byte {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, len(text)+1, unix.IPC_CREAT|0o600)
	if err != nil {
		return nil
	}
	segment, err := unix.SysvShmAttach(id, 0, 0)
	// Marked now, it goes with the last who is attached (shmctl(2)).
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if err != nil {
		return nil
	}
	copy(segment, text)
	return segment
}

// Main serves one of the hidden subcommands and returns its exit code; ok is
// false when the arguments are none, and then nothing was done.
func Main(args []string) (code int, ok bool) {
	if len(args) < 3 || args[1] != Command {
		return 0, false
	}
	switch args[2] {
	case "proxy":
		return proxy.Main(), true
	case "world":
		if err := witness.Main(); err != nil {
			fmt.Fprintln(os.Stderr, "world:", err)
			return 1, true
		}
		return 0, true
	case "unpack":
		return image.UnpackMain(args[3:]), true
	case "foreign": // the first process of somebody else's proxy
		return adapter.Main(args[3:]), true
	case "hold": // a process that holds its arguments, environment and shared memory until its input ends
		segment := share(strings.Join(os.Environ(), "\n"))
		shedCapabilities()
		io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(segment)
		return 0, true
	}
	return 1, true
}
