package gvisor

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

const (
	runtimeName  = "wallproof-runsc"
	gvisorModule = "gvisor.dev/gvisor"
)

// findRuntime returns the runtime program: path if given, else what RuntimeEnv
// says, else the file beside the running executable.
func findRuntime(path string) (bundle.Program, error) {
	if path == "" {
		path = os.Getenv(RuntimeEnv)
	}
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("gvisor: find the running executable: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), runtimeName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("gvisor: runtime's path: %w", err)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("gvisor: no runtime: %w; build it with \"make build\", or set %s to where %s is", err, RuntimeEnv, runtimeName)
	case !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0:
		return "", fmt.Errorf("gvisor: %s is not an executable file; set %s to where %s is", path, RuntimeEnv, runtimeName)
	case fi.Mode()&0o001 == 0: // it executes itself again as an id of the sandbox
		return "", fmt.Errorf("gvisor: %s may be executed by root only; run \"chmod 755 %[1]s\"", path)
	}
	return bundle.Program(path), nil
}

// version is the gVisor module's version that the program was built from, as
// its build information says; no process is started for it.
func version(p bundle.Program) string {
	info, err := buildinfo.ReadFile(string(p))
	if err != nil {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == gvisorModule {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}
