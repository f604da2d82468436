// Package version says which build this is.
package version

import (
	"runtime/debug"
	"strings"
)

// Version and Commit are set by the linker; a build without it reports what
// the Go toolchain recorded.
var (
	Version = ""
	Commit  = ""
)

// String returns the version, never empty.
func String() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && !strings.Contains(info.Main.Version, "(") {
		return info.Main.Version
	}
	return "devel"
}
