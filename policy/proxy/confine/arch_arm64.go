//go:build linux && arm64

package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// deniedHere are further calls of this architecture.
var deniedHere = []uint32{unix.SYS_KEXEC_FILE_LOAD}
